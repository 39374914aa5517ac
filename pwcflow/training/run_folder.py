"""What a run finds in its folder, and whether it may write there."""

from pwcflow.errors import OutputError
from pwcflow.training.room import check_room
from pwcflow.training.settings import TrainSettings
from pwcflow.training.tensorboard import import_tensorboard


def check_output(settings: TrainSettings) -> None:
    """Refuse a folder that holds another run, and what the run's outputs cannot do without.

    Raises:
        OutputError: there is a run that is not to be resumed, or one by a recipe, or too little
            room on the disk, or TensorBoard is asked for and not installed.
    """
    path = settings.checkpoint_path
    if path.exists() and not settings.resume:
        raise OutputError(f"{path} is of an earlier run; resume it, or choose another folder")
    if not path.exists() and settings.weights_path.exists():
        raise OutputError(
            f"{settings.weights_path} is of a run without {path.name}, such as one by a recipe; "
            "choose another folder, or resume that run as it was begun"
        )
    if not path.exists() and (settings.output / "1" / path.name).exists():
        raise OutputError(
            f"{settings.output} is of a run by a recipe; go on with that recipe, or choose another "
            "folder"
        )
    check_room(settings.output, [settings])
    if settings.tensorboard:
        import_tensorboard()
