"""cuDNN's library, its contexts, and its descriptors, through ctypes."""

import ctypes
import logging
import threading
import weakref
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from pwcflow.cudnn.enums import Attribute, AttributeType, DescriptorType

logger = logging.getLogger(__name__)

LIBRARIES = ("libcudnn.so.9", "cudnn64_9.dll")


class CudnnError(RuntimeError):
    """cuDNN refuses what it was asked for."""


@cache
def _found() -> ctypes.CDLL | None:
    """Return the cuDNN of this process's PyTorch, or None."""
    if not torch.cuda.is_available() or torch.version.cuda is None:
        return None
    for name in LIBRARIES:
        try:
            found = ctypes.CDLL(name)
        except OSError:
            continue
        found.cudnnGetErrorString.restype = ctypes.c_char_p
        return found
    logger.debug("no cuDNN among %s", ", ".join(LIBRARIES))
    return None


def is_available() -> bool:
    """Return whether the convolutions of this package can be had."""
    return _found() is not None


def library() -> ctypes.CDLL:
    """Return cuDNN, which `is_available`."""
    found = _found()
    assert found is not None, "is_available was not asked"
    return found


def check(status: int) -> None:
    """Raise `CudnnError` with cuDNN's own words unless a call of it went well."""
    if status:
        raise CudnnError(library().cudnnGetErrorString(status).decode())


@dataclass(frozen=True)
class Context:
    """cuDNN's context of a device."""

    handle: ctypes.c_void_p
    lock: threading.Lock
    """Held while it has a stream: threads have streams of their own."""


@cache
def context_of(device: torch.device) -> Context:
    """Return the context of a device, kept for the life of the process."""
    handle = ctypes.c_void_p()
    with torch.cuda.device(device):
        check(library().cudnnCreate(ctypes.byref(handle)))
    return Context(handle, threading.Lock())


class Descriptor:
    """One of cuDNN's objects; freed with this one, which keeps those it was made of."""

    def __init__(self, kind: DescriptorType, *parts: "Descriptor") -> None:
        """Create it, to be described by the setters and then finalised; raises `CudnnError`."""
        self.pointer = ctypes.c_void_p()
        self._library = library()
        self._parts = parts
        check(self._library.cudnnBackendCreateDescriptor(kind, ctypes.byref(self.pointer)))
        finalizer = weakref.finalize(
            self, self._library.cudnnBackendDestroyDescriptor, self.pointer
        )
        finalizer.atexit = False  # CUDA may be gone by then

    def _set(self, attribute: Attribute, kind: AttributeType, values: Any) -> None:
        """Set an attribute to a ctypes array."""
        count = ctypes.c_int64(len(values))
        check(
            self._library.cudnnBackendSetAttribute(
                self.pointer, attribute, kind, count, ctypes.byref(values)
            )
        )

    def set_enum(self, attribute: Attribute, kind: AttributeType, value: int) -> None:
        """Set an attribute to a member of the enumeration `kind`."""
        self._set(attribute, kind, (ctypes.c_int * 1)(value))

    def set_bool(self, attribute: Attribute, value: bool) -> None:
        """Set an attribute to a truth value."""
        self._set(attribute, AttributeType.BOOLEAN, (ctypes.c_bool * 1)(value))

    def set_int64(self, attribute: Attribute, *values: int) -> None:
        """Set an attribute to whole numbers."""
        self._set(attribute, AttributeType.INT64, (ctypes.c_int64 * len(values))(*values))

    def set_float(self, attribute: Attribute, value: float) -> None:
        """Set an attribute to a number in single precision."""
        self._set(attribute, AttributeType.FLOAT, (ctypes.c_float * 1)(value))

    def set_double(self, attribute: Attribute, value: float) -> None:
        """Set an attribute to a number in double precision."""
        self._set(attribute, AttributeType.DOUBLE, (ctypes.c_double * 1)(value))

    def set_pointers(self, attribute: Attribute, *addresses: int) -> None:
        """Set an attribute to addresses in the memory of a GPU."""
        self._set(attribute, AttributeType.VOID_PTR, (ctypes.c_void_p * len(addresses))(*addresses))

    def set_context(self, attribute: Attribute, context: Context) -> None:
        """Set an attribute to a context's handle."""
        self._set(attribute, AttributeType.HANDLE, (ctypes.c_void_p * 1)(context.handle))

    def set_descriptors(self, attribute: Attribute, *descriptors: "Descriptor") -> None:
        """Set an attribute to other descriptors, which must be finalised."""
        self._set(attribute, AttributeType.BACKEND_DESCRIPTOR, _pointers(descriptors))

    def finalize(self) -> "Descriptor":
        """Let cuDNN check what was set, and return this descriptor; raises `CudnnError`."""
        check(self._library.cudnnBackendFinalize(self.pointer))
        return self

    def _get(self, attribute: Attribute, kind: AttributeType, room: Any) -> int:
        """Read an attribute into a ctypes array, and return how many values cuDNN has."""
        count = ctypes.c_int64()
        check(
            self._library.cudnnBackendGetAttribute(
                self.pointer,
                attribute,
                kind,
                ctypes.c_int64(len(room)),
                ctypes.byref(count),
                ctypes.byref(room),
            )
        )
        return count.value

    def get_int64(self, attribute: Attribute) -> int:
        """Return a whole number."""
        room = (ctypes.c_int64 * 1)()
        self._get(attribute, AttributeType.INT64, room)
        value: int = room[0]
        return value

    def get_enums(self, attribute: Attribute, kind: AttributeType, most: int) -> list[int]:
        """Return members of the enumeration `kind`, `most` at the most."""
        room = (ctypes.c_int * most)()
        count = self._get(attribute, kind, room)
        return room[:count]

    def get_descriptors(self, attribute: Attribute, *into: "Descriptor") -> int:
        """Have descriptors of the right type filled, and return how many were."""
        return self._get(attribute, AttributeType.BACKEND_DESCRIPTOR, _pointers(into))


def _pointers(descriptors: "tuple[Descriptor, ...]") -> Any:
    """Return a ctypes array of the descriptors' addresses."""
    pointers = [descriptor.pointer for descriptor in descriptors]
    return (ctypes.c_void_p * len(pointers))(*pointers)
