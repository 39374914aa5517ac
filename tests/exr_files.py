"""Small EXR files that the OpenEXR library 3.5 wrote, as base64 of their zlib streams.

20 rows of 5 pixels: R = x / 8, G = y / 32, B = (x + y) / 16. `window` stores them from (-2, 3) on
and displays (0, 0) to (6, 19); `nan` has one in G at x = 3, y = 7.
"""

import base64
import zlib

_PACKED = {
    "half zip": (
        "eNor0zdkZGJgYEjOSMzLS80pBjJyMotLGMyBYk4MjAwQwAjF7hgiQRgiDMn5uQVFqcXFmfl5KGyQJHNKYklieGZe"
        "Sn45Q1J+hVEmgwADArAAsTAQp2QWF+QkVhJUl5OZl+pflJJahMQCO6EgsyI1x7G4IDW5JCixJDOfIS0nP7EErI+B"
        "ocG+OLkoNTUPYrxzal4JUFuZURoDB5IVyErCM1NKMtCMKKksSGUoLinKzEtn4AWrT8wDOSIzNzE9lSENGig/GBEm"
        "dgFxRdzaU95chxwEWh5azoo2tRMQv+d8USL+7sXHOz5w1Jqs1jKSFGBRZL785fj9k2y1mn+DXuaX/jljn+0SqfzL"
        "5+iK9efdb4fdirtR9mPfUrMU3p/zYibzPmEvcp2nuP6kamXjGw+9E9pPHs3Z43htgvElBXFtw/CJr16FnAm9stVC"
        "sFj0/YS5JzZyiNYwW8rf3gkKTjOwi5ItGFh4CxgeOe7gU2hiPJfK0H1wZ0IRv4B5WHOEnHTUrFlRDXvYUvKSmY3E"
        "Tzg/YmJQ2223EwAZh6Mj"
    ),
    "float zips": (
        "eNqFk11s01YUx4/jfDVt2oxspcTuSOkG7EvLumoLQ1qTpoghJGCo0D5NNonBloJjxR5NmVblq8kktK17QxMSLe9I"
        "kQCpD5t2kyAQ7IFIeyD7eHBBGkWMLby0laJKs+sbOQxFu9LV/+r6/zvnnnOvz737HmEBgCjPiiIXl7VFXJAV+FDb"
        "Gwf9iz4IPA++sHP8hR2IJs5KSU6WhYT43Fr/aImxCjsliLHEDJxKpEYE8IA5rNr0ajMmyFKcnf1fX1wQuaPJGJds"
        "W20dQRJSXDwsS1xUOc4qQgJOxxOsssUBpMfkaJLjRCN8hBMVDTs3chqcbSnaLVNCTOH/E0KZlTiQlaQgngH3lp8V"
        "9UMIZ9kzHKwRRpRh3JwTWOexXsf6AGs/aegRrDmsN7A+xjpopIdPsWax3sC6ipWyGXoI6xdYr9rMCl/XZuqzKM8z"
        "DM8HVdj1HUHmqoTnx/uzl73OXT+HJ9ZIeHzXh/Ra3jTMhhWhxcYiYQsEgjTP15/8cK/Lsv5RlYmQE7Ex+PNXH9Kr"
        "2tsKb/jRCpD0KOgpMoXCl0cCy/d32NkrTSL0fT/Sq9tj+FvuUMVSJAN1sPb0+M9f9vb8/XkhfHF1Dqg7FNKL3N06"
        "0LGUKvnZMOljGClYq5X0w+yvTDcvMVpw3z0K6SW/bbixN1LNZ21dRvBeh8+3ti+jzt3e/MbT76wcIE4CjeyaP2Aw"
        "UnChtLjEjpezebK3nXkq//aPM+vvt45PrO976oCpIRo5NOYdg/tkulYLLDHhSiHtcD3HzeSRVr9zm628CdMjNHKa"
        "/eX5i8dKfjaCCIc9yIPFbi+SbndzkJW0FnwwGlrdhNRr21GXWVLLX+y2W3YyJcI5MED3jo7+NZMva0nqNVhaJ2Hy"
        "Fxq5TGZ6oTSkpqu2nMPl6uvEnJBp1G0ydY+EVrJlcr7PYt/eiTnppVGP5n+jdZdSWc1UHIReht4C/1ykOndw4I9H"
        "1pzb7Tk/BsPXKKT/PW8ZwDLTCK3kgCRvf5t2t/Vsf0X9eM9AnE/XmsTQYQr1mkhqsRFOZzIPi6iYt3VAXv2dQn0m"
        "suFHCD2LqLmbF7JdHRA6SiFP+zNTN4Ya4QfzlZz9ZYRUSXsRPw3vjvP1R9Zsk9ixSqGXzFtsecmvqcFX2hOcquhP"
        "37+8EyaDNNpmEp4N/7Pxlcwtd67b62rv7s28dv2XQtIYTH5FI69JLKSWGqGHhbLtgvf9kQ5EnUb/AnenogU="
    ),
    "half rle": (
        "eNqFk8tu00AUhk9sAwnQhjbiJvEELLh0w5ICQtwKQRFSWWKSaTvItSPbSpOymYlY8wA8A0gV4pY2C78CK96CBQsW"
        "CdicMz5uDFlg6egfzff/M+eMkt7lqxULANpbru8LL8KFJ6MYruHeTahA/lW47szttOZ2oB1sd0MRRTLw/1obQ8eN"
        "3XXpd4IdeB70VyScgtnnYDWwOjLqeu7gvz5P+qIZdkRYWpkWurIvvBtRV7TjlhvLADa8wI1NDkBdj9qhEH5+/C3h"
        "xxjrrWxAtXRF2bIuO/HWP0fEg66AKA6lvwkLxu/61ITcdjcF/ORHqVu5XmS9zfqMdZf1DeuI9RvrD9aGnesl1ibr"
        "C9bXrO9Yv7J+Z63nbcMVZzbhElYGi2r69tVwuOaoX3uoFX7ZDBbUhICObDV9Ssgqoz0kuofoCSG7hNL3Q0tnO4ha"
        "hOjCZUbZB1tnfSSPiRzB3XOGWCoFqKrso6VTNUDeJH4U2VmsKSgFUFOTT1orTfgR4WOIzmCloGwMTz4jVLtIHxKt"
        "ckcOBb8g0YTWCNVw+zzdizlHZWCjocgaw/FydlRkHxA6MZ8dFVljOFnO7hfZ+4ToV3LBZC1Ik8TO4/tF3HgWeWYL"
        "ficJTXWAVL1EfI9wnY9IFVhJtpofkR5oS2WHHvqfnDbPaic1lY3xcTXBuwSXiv5X7QT7xxMmY4VXHBqWZwMmPOC4"
        "aMEYGtyhQxiHSMfF7Qb/ATd0Lws="
    ),
    "float none": (
        "eNqFk7tOG0EUho+NMQ4JYIIUUVLRJqFIJIR3gBRIaRLRIFF5sQd7omV2tTvikiJymSqipEKUVIiSCkV5gihPEOUJ"
        "IgpqZjxHs+YcR1np87/aOf+3F+8evnxdqQJApx9rLZPC7iSqMPDWHtsEt+K2CrLFjmyzI9BJD7JcFoVK9aP94WI3"
        "NvGO0t30CPbS4xUFTSi3mmXBDakiS+KT/84lSssPeVfmI3vDs2TqWCYbRSY7Zjs2KoX9JI3NsAcwEEUnl1J7/Tup"
        "ja0druxDY+QUoyM7qmv6RGFOMgmFyZXuwcxwPtbuItRB3JNwX/GWVXw4XzB/YNYnfL7H/Ib5C/OFPw3sYp5j/sFc"
        "nvT5CfMK8w7zTd3nZ8xbzOpUeYdrYW/Qsj8RwLplEMG/N1z/7mZEJTho/8Ktt8bAHNXyOkjfrTsvhTsmgoP2f7ts"
        "cbijVt4L6YPwswzmmAwO2m9aliIOd9SDg/WFvz8Kd0wFB+2/srQjDnc0yv+F9NeFn6Nwx5PgoP2PltOIwx3TwUH7"
        "beGfM4U7ngYH7WeW64jDHc/Kd4z0B8LPULhjJjho/6vlZ8ThjtngoP1T4f9vCnfMBQftn1n+RhzuaJbfC+lfCPxm"
        "KMwxHxy0f2lpjIE7ngcH7V/je0vhjoXgoP0by+IYuOMB6lMIRQ=="
    ),
    "tiles": (
        "eNor0zdkZGJiYEjOSMzLS80pBjJyMotLGMwZGBicGBgZIIARit0xRIIwRBiS83MLilKLizPz81DYIEnmlMSSxPDM"
        "vJT8coak/AqjTAYBBgRgAWJhIE7JLC7ISawkqC4nMy/VvygltQiJBXZCQWZFao5jcUFqcklQYklmPkNaTn5iCVgf"
        "A0ODfXFyUWpqHsR459S8EqC2MqM0Bg4kK5CVhGemlGSgGVGSmZNazAAiU1KLkxk4QX4DYrArSyoLUhmKS4oy89IZ"
        "uEB8kKrM3MT0VIZ+aGiJMUHoCVD6KhMDVlAMxBVxS0+d5j3kwNPyMFffRvlIo1dABUfvWYazBQWcmr2JOwq7N126"
        "Nb9uZ+Kz7Lf19Q/tV/Y8Xr/nZrYY+zNBC5H1M5k36N8z8juwrqPD+IL44Rtil2+IvG/k3qD3yiOCU+/Q4VTNHRz+"
        "01sfKO2JsTq4VLuOQehM81ZGNGekgZ1Re2ovb3OCQPPD/C08E3KVVBtZNpztF2A9HBBwP0OChddpjt/6eYc4t0+/"
        "NHHy9f0FLbIbdR8n+lclXZuv36P149iCSfJfVv1wVVdw1jZwVlZy1zVqV7m9deWtstwVG6//C3gby6C2OWwnLCXB"
        "gCHY5mSLgoaFjCx8DZJ8vLw8CWwdvGkyGRk3Ll8IuHzhwcaFS5kPZqxpM5CSVuBhuNqutJURzRBlsCHWBQsYWRqW"
        "OB9mVDh54QCDCr/Jm8w1eSuys3Id1Bmz1krsBAAn4tnr"
    ),
    "alpha": (
        "eNor0zdkZGJgYEjOSMzLS80pBjJyMotLGDyBYo4MjAwQwAjFThgi7hgiQRgiDMn5uQVFqcXFmfl5KGyQJHNKYkli"
        "eGZeSn45Q1J+hVEmgwADArAAsTAQp2QWF+QkVhJUl5OZl+pflJJahMQCO6EgsyI1x7G4IDW5JCixJDOfIS0nP7EE"
        "rI+BocG+OLkoNTUPYrxzal4JUFuZURoDB5IVyErCM1NKMtCMKKksSGUoLinKzEtn4AWrT8wDOSIzNzE9laECGijS"
        "TAgTZwNxRdzeU5ZcTIECrhf3mzi3lznw3GlflGt9N/xbEQ8P7/9LLfohpl0KHGFfLEqF6/dM2bfY/I+D/+uaujdF"
        "equ7Lfe3aD6dU53KeIfx1/Vra7TeR2eHHdtlepkr4WXYbE/phtbo5EnbGIq3N6tcZTDevliljCF4++SWLt8755xM"
        "GJLNBbTCWivF1d67Jd5rnVl+2OD9IT2ObwzNBhe3sv/4qX0CFL4OYCcmZzA0MjswpCkweHAoPWMQT27oNjxwVOZB"
        "UkIRe0cG46NjWQKnk529g4UjxDSu3WhQBGE2ESchZoa0F0E7AfwXq3Q="
    ),
    "layers": (
        "eNor0zdkZGJgYEjOSMzLS80pBjJyMotLGOqAYmGZqeV6zvm5SZl5qSl6TgwgdSDACMWo8u4E5IOwy7ukFpRk6EVh"
        "SDIk5+cWFKUWF2fm56GwQZLMKYklieGZeSn55QxJ+RVGmQwCDAjAAsTCQJySWVyQk1hJUF0O0H3+RSmpRUgssBMK"
        "MitScxyLC1KTS4ISSzLzGdJy8hNLwPoYGBrsi5OLUlPzIMY7p+aVALWVGaUxcCBZgawkPDOlJAPNiJLKglSG4pKi"
        "zLx0Bl6w+sQ8kCMycxPTUxnWMkJMaWJCmHgWiCvi3l7cyNtsIMB6QTs4aFlKS0/CbFaJRkGJh24JLG4JjDn9Bzim"
        "aGoGuz364qvA7hh46o6+zsHN5+yEjQWLTVz2aCkJp07dH/H54w3HmR4rTdhDt6opVcUHvl73nm/VyttcF+8sCope"
        "bLlinUyxS3FA0bW/v514t+c4mbCbPlv51ubj2uZZm243ZPB1vag4FzDd/abirOZTy0ye/czdxveqar20y/z4+Irn"
        "c8v/BH1SjXiW8PRCwL2vrIssV8TvTpgu+1vvhjEQ+V1RZ/9aHr9TvWub1X1QjASCPZWckPDgh+IHx0eth5rZRA4c"
        "eFDA4GRuIlPgsOLSjouBjM03rhwMkYyZEcAAZkXOmTERJPa2/EgLL+/vOQ4CR269rzjAyMLuIctw13DSQQABRund"
    ),
    "gray": (
        "eNor0zdkZGJgYEjOSMzLS80pBjJyMotLGISBYpEMjAwQwAjFDMn5uQVFqcXFmfl5KGyQJHNKYklieGZeSn45Q1J+"
        "hVEmgwADArAAMcjQlMzigpzESoLqcjLzUv2LUlKLkFhgJxRkVqTmOBYXpCaXBCWWZOYzpOXkJ5aA9TEwNNgXJxel"
        "puZBjHdOzSsBaiszSmPgQLICWUl4ZkpJBpoRJZUFqQzFJUWZeekMvGD1iXkgR2TmJqanMjhBAyWWEWEiyMEVcckZ"
        "C4xuXLh05YmjLRPDcw3/nSB/CUGlDjCZbTExrVwgxNBZL7wTAIDmW3o="
    ),
    "window": (
        "eNor0zdkZGJgYEjOSMzLS80pBjJyMotLGMyBYk4MjAwQwAjF7hgiQRgiDMn5uQVFqcXFmfl5KGyQJHNKYklieGZe"
        "Sn45Q1J+hVEmgwBQ9N////+ZgTTIIWJAnJJZXJCTWImhDgbYgFgYiHMy81L9i1JSi5BYYCcUZFak5jgWF6QmlwQl"
        "lmTmM6Tl5CeWMLCAdTfYFycXpabmQYx3Ts0rAWorM0pj4ECyAllJeGZKSQaaESWVBakMxSVFmXnpDLxg9Yl5IEdk"
        "5iampzKkQQPlB5QGea4LiCvi1p7y5jrkINDy0HJWtKmdgPg954sS8XcvPt7xgaPWZLWWkaQAiyLz5S/H759kq9X8"
        "G/Qyv/TPGftsl0jlXz5HV6w/73477FbcjbIf+5aapfD+nBczmfcJe5HrPMX1J1UrG9946J3QfvJozh7HaxOMLymI"
        "axuGT3z1KuRM6JWtFoLFou8nzD2xkUO0htlS/vZOUPCZgV2UbMHAwlvA8MhxB59CE+O5VIbugzsTivgFzMOaI+Sk"
        "o2bNimrYw5aSl8xsJH7C+RETg9puu50A3EKnKg=="
    ),
    "piz": (
        "eNqFj0FPwjAUx98IBy8mJn4JD0YBEQZsEfXg0YQLnkzqVqDJ6Ja1Qbj1o/HR7EZfX5WD/aVZ29/7v3a7+37UAYBs"
        "w6TkhbKLQigNY3v2AhGcRuTm29nJ4uwEsnJb1VwpUcpf60Z2c6bZUsi8/Iavcj8QcAU0unZe25kLVRXs8G9dISR/"
        "r3NeB6v2CZXY8+JZVTzTC6ZFCauiZLrNAZgnldWcy1P7Vy61je0GK7gIrghLliLXmz8t9KHioHQt5Bou23omm0eI"
        "LVtz+Iyo00en/dxCDwYwhHD07H4EsXePcOMhi25k6xCy6MZw5yGLrumCkHXOxND3kEU3sXcgZJ0zE3jwkEU3tXvE"
        "W3RmaoZIkHUOZvZ9CGWdMzPziARZ5yCxO4Syzs0TM0KCLLrE/htCWeeOiRkjQdY5SJt/d3iLbp7OYyTo7JxJTYyQ"
        "RXdMjzFC9ge3hasR"
    ),
    "motion": (
        "eNor0zdkZGJgYEjOSMzLS80pBjJyMotLGFSBYqEMjAwQwAjFYRgiDMn5uQVFqcXFmfl5KGyQJHNKYklieGZeSn45"
        "Q1J+hVEmgwADArAAsTAQp2QWF+QkVhJUl5OZl+pflJJahMQCO6EgsyI1x7G4IDW5JCixJDOfIS0nP7EErI+BocG+"
        "OLkoNTUPYrxzal4JUFuZURoDB5IVyErCM1NKMtCMKKksSGUoLinKzEtn4AWrT8wDOSIzNzE9lSEEGijrGREmBgNx"
        "RdzWU9ZcDQYCLQ9jTpULcPOnKi4y7Pd+WvDwvtKGXIVonfs8yffWpb/Kfrup/JyXm7jFxV6+LwtkT55ZxJ/rcUr0"
        "b4aj3NkoRt8owd4oTt5Q1psLZp8BhYsC2OjkDAdGdocW5o6EBuGEd422ur6+sgrTOOPEGJiU1M4CAO05euY="
    ),
    "nan": (
        "eNor0zdkZGJgYEjOSMzLS80pBjJyMotLGMyBYk4MjAwQwAjF7hgiQRgiDMn5uQVFqcXFmfl5KGyQJHNKYklieGZe"
        "Sn45Q1J+hVEmgwADArAAsTAQp2QWF+QkVhJUl5OZl+pflJJahMQCO6EgsyI1x7G4IDW5JCixJDOfIS0nP7EErI+B"
        "ocG+OLkoNTUPYrxzal4JUFuZURoDB5IVyErCM1NKMtCMKKksSGUoLinKzEtn4AWrT8wDOSIzNzE9lSENGij/GBEm"
        "TgDiiri1p7y5DjkItDzcOaV6e1aNgt6e9kWG+3YtPl74UDDt/dI1q3hONiiwGBn41v+Rzbkgfsj+6b/QwybV1yQ+"
        "SyVPX2nx7tXryOut28y32e57v0I30qlOwTyF9efEmMniJ7yLXOMUrSd6f2LbuUPh/YTQtPkX55iccNzs5GM6MeuV"
        "T87qFdmFWttCaxzK1NSVpnzktsy6vRMUqGZgdyVbMLDwFjA8ctzBp9DEeC6VofvgzoQifgHzsOYIOemoWbOiGvaw"
        "peQlMxuJn3B+xMSgtttuJwDQvKXu"
    ),
    "parts": (
        "eNor0zdkZBJgYEjOSMzLS80pBjJyMotLGMwZGBicGBgZIIARit0xRIIwRIAmlOZlO+eX5pUwZAIxC1CICSScn1tQ"
        "lFpcnJmfh8IG6WFOSSxJDM/MS8kvZ0jKrzDKZBBgQACQCcJAnJJZXJCTWElQXU5mXqp/UUpqERIL7LK8xNxUhuKS"
        "osy8dAY2ID8pNbG0pLIgsyI1x7G4IDW5JCixJDOfIS0nPxHibgaGBvvi5KLU1DyIpc6peSVAw8qM0hg4kCxGVhKe"
        "mVKSgWYE0A64vbxg9Yl5IKdl5iamp2IEPcgLUeAgG4LBygoyMLWgJGOgQ5XhFzQEJzBD6EtQ+jczAwroAuKKuLWn"
        "vLkOOQi0PLScFW1qJyB+z/miRPzdi493fOCoNVmtZSQpwKLIfPnL8fsn2Wo1/wa9zC/9c8Y+2yVS+ZfP0RXrz7vf"
        "DrsVd6Psx76lZim8P+fFTOZ9wl7kOk9x/UnVysY3HnontJ88mrPH8doE40sK4tqG4RNfvQo5E3plq4Vgsej7CXNP"
        "bOQQrWG2lL+9E+QiUOCbgV2VbMHAwlvA8MhxB59CE+O5VIbugzsTivgFzMOaI+Sko2bNimrYw5aSl8xsJH7C+RET"
        "g9puu52w/CgLMSEjIyEhI8PiAYMSu3r2/seM7AIyU3QYflrXH2SEWiWDrvDj5m/WcgUMjnt0GGI75A8CABgZHQQ="
    ),
}

EXR_FILES = {name: zlib.decompress(base64.b64decode(text)) for name, text in _PACKED.items()}
