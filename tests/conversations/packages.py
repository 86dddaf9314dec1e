"""Collections of files from Debian packages: the packages, the files, and their extraction."""

from __future__ import annotations

import gzip
import subprocess
from collections.abc import Mapping
from pathlib import Path

from turnmark.core.errors import TurnmarkError
from turnmark.core.home import file_sha256

Files = Mapping[str, Mapping[str, str]]
"""Package and version: its files below `/usr/share`, and the SHA-256 of each, unpacked if it ends in `.gz`."""

_FILES: Files = {
    "aprx=2.9.1-1": {
        "doc/aprx/aprx-manual.odt": "2e267d3313b070911f19fb42efe289294240846536b829c205f331b70c83cea4",
    },
    "coco-doc=20060919.0-1": {
        "doc/coco-doc/UserManual.pdf": "170e5c9b15de2d0d6e7bbed634c2bac8b0f525b1c6582721fbe137a95060978e",
    },
    "device-tree-compiler=1.6.1-4+b1": {
        "doc/device-tree-compiler/dtc-paper.pdf.gz": "971732791785cc145bc0924c937caffd3979f54f2820826162207ea3c7f70dc7",
    },
    "libdds-dev=2.9.0-9": {
        "doc/libdds-dev/2014-11 Performance and Benchmarking.docx.gz": (
            "cf9ed116d8b22725e2a9117c6bb51782c698c7ec8258d38e1aa4e0cf27a9f164"
        ),
        "doc/libdds-dev/DLL-dds_x.pdf.gz": "6f3c6ac3f6481481ff883d5c07a5a6b0b8ee1b98b8a23b30493bef1bb5834769",
    },
    "libhyphen-dev=2.8.8-7": {
        "doc/libhyphen-dev/tb87nemeth.pdf.gz": "3a7e2694bd6be59daa73f0389e1e73e1f2b0c4764ff6454dc0e9aff50cd8dfff",
    },
    "mk-configure=0.37.0-2": {
        "doc/mk-configure/presentation.pdf.gz": "7f9e582f6d5bd2a0be9b43f5a7cd098c7b64be7f98fa19100d2220f40df68cb3",
    },
    "nagios-nrpe-server=4.1.0-1+b1": {
        "doc/nagios-nrpe-server/NRPE.odt": "2c124278f0d53182532e1fc522e722c63b353e8605593cbcdd13e5559bb7f7c8",
    },
    "pcb-common=1:4.2.2-1": {
        "doc/pcb-common/refcard.pdf.gz": "9376681134d0d90036d1a80700e6c162d70ee1682c1602fa5896c6fb7e14f78e",
    },
    "python-odf-doc=1.4.2-2": {
        "python-odf/examples/countrystatistics.ods": "223c5108d947b6afce313b8af1c1794bdbe13e065d1aa99078d6a3ae02526ab6",
    },
    "python-py7zr-doc=0.11.3+dfsg-5": {
        "doc/python-py7zr-doc/html/_downloads/95258fe72f1c2ee14b78d021ee45a0e4/Introduction_of_py7zr.odp": (
            "6f046f09c0dd813ae594d33e0895153a976b8ef00b1aa4d61685dfb9212b4757"
        ),
    },
    "r-cran-readxl=1.4.2-1": {
        "../lib/R/site-library/readxl/extdata/deaths.xlsx": (
            "0469b75be78da0ca9b956d81e2338f32fa3f45b00622cef5e6d7a278897eb80a"
        ),
    },
    "r-cran-stringdist=0.9.10-1": {
        "../lib/R/site-library/stringdist/doc/RJournal_6_111-122-2014.pdf": (
            "08bd7270f89cb9112a21fd2e4efdc0cc05facf5784301a866fdb160ebc9b0562"
        ),
    },
    "snmptt=1.5-1": {
        "doc/snmptt/snmptt.epub": "6fe3260b6003730d9614eb43455244ee5165a0d56a8205e4432b0af150ab1625",
    },
    "w1retap-doc=1.4.6-1.1": {
        "doc/w1retap/w1retap.odt": "6c42c5d5c1b8bf5eddef264f5ffa38573eed1c6aa61bb909a88d426252480501",
    },
}
_PAPERS: Files = {
    "alqalam=0.2-10": {
        "doc/alqalam/tb87fahmy.pdf": "dc41f5b2a7002569858f23c38f49029441c514c1106164ba91a004e7ba2dd45e",
    },
    "db5.3-doc=5.3.28+dfsg2-1": {
        "doc/db5.3-doc/programmer_reference/bdb_usenix.pdf.gz": (
            "198ab86a4a5a528f05bea03662d08b91b2e57ce81aaa25ff571aaed25297bc72"
        ),
    },
    "ebumeter-doc=0.4.2-2": {
        "doc/ebumeter-doc/loudness-meter.pdf.gz": "c3854c55c3ad9e05d2be0ca4815453343ae3154f25c89f4312cebf638bff07a4",
    },
    "freedv=1.8.7-1": {
        "doc/freedv/USER_MANUAL.pdf.gz": "f6104191d5ddc8a81fae741400668b70d72067b739c6b92ea78b5c525754ce75",
    },
    "libfuse-dev=2.9.9-6+b1": {
        "doc/libfuse-dev/html/fast17-vangoor.pdf.gz": (
            "871e3c664402ee1865767b17b8ca6197941753796f1f9256420351c1f9ffcbeb"
        ),
    },
    "libgnudatalanguage0=1.0.1-4+b5": {
        "gnudatalanguage/resource/maps/projections.ods": (
            "b0e60492870e7c11c3e702d5264bfa99794250aaeddff29ea3949f05308e4776"
        ),
    },
    "libmapsforge-java-doc=0.17.0+dfsg.1-2": {
        "doc/libmapsforge-java/docs/presentations/State of the Map 2010.odp": (
            "46b43e62459c4bf0a09b3ce26736c08c2b04debcbd9df815954a2ba7b92cfac0"
        ),
    },
    "libtango-doc=9.3.4+dfsg1-2+deb12u1": {
        "doc/tango/html/_downloads/d61100901b14baa16be2d62055289d74/hdb_-_high_availability_with_cassandra.pptx.gz": (
            "8c1e3f6a5e92f13b659186445358655f8492c2a340614f45ffc2c29da01a9435"
        ),
    },
    "libtlsh-dev=3.4.4+20151206-1.4+b4": {
        "doc/libtlsh-dev/TLSH_CTC_final.pdf.gz": "4727901e90e7a4444e9a936a34eb6210ae9364a86df46c4249ecbd71ed5cc843",
    },
    "lightyears=1.5.0-2": {
        "doc/lightyears/manual.pdf": "937dc4437762f4ce3466d7460591db779a36383ac5c5a9ac3d25a2810cf97757",
    },
    "lios=2.7.2-6": {
        "doc/lios/user-guide.odt": "d6078a3acf060b6cc72730534efeecdca07eb2f884603ef1b0ba13e417851b16",
    },
    "muttprint-manual=0.73-11": {
        "doc/muttprint/manual/manual-en.pdf.gz": "bb728f8666583e79a10722fee3febcbf3b24b6f4c58edf2f78f1e16aff5e8994",
    },
    "previsat=3.5.1.7+dfsg1-5": {
        "Astropedia/PreviSat/doc/PreviSat_en.docx": "d9acb186d19bf08a3e38ce82c03bf4eed9770f1c7bd0e59fb0a5b37cdb27802c",
    },
    "r-cran-dslabs=0.7.4-1": {
        "../lib/R/site-library/dslabs/extdata/murders.csv": (
            "8f174400a431845352158dff7c64852bf38a9959135d1e82ba4e66ba048e7626"
        ),
    },
}
_TABLES: Files = {
    "cronometer=0.9.9+dfsg1-1": {
        "cronometer/usda_sr24.jar": "4944801587983e4fc3f277bdf165e0a171acadda1fe2a38c3b37e6e8e97f20b7",
    },
    "ieee-data=20220827.1": {
        "ieee-data/oui.csv": "6a2a3bb4983b3edcae727ed890406fc678023bd8e5010e4fb89e1312ee3885ae",
    },
    "iso-codes=4.15.0-1": {
        "iso-codes/json/iso_3166-1.json": "f01b812b57fba9f31ff621bf33e7c7570a01964dbeb5be2167e94decf538c89f",
        "iso-codes/json/iso_3166-2.json": "078d2da1c3a868189765be5098ce9d551318d12be7e3c0b18e9282dd5481a831",
    },
    "libktoblzcheck1v5=1.53-3": {
        "ktoblzcheck/blz_20200420.txt": "64d6a73fd5bad14def882b660abfed134aab271d22436feacac3ce0cd38c4b14",
    },
    "python3-vega-datasets=0.9+dfsg-1": {
        "../lib/python3/dist-packages/vega_datasets/_data/seattle-weather.csv": (
            "62f0609f787158128aa2bd102967173a4953122dd4f872bf1d502cae1037df0b"
        ),
    },
}
"""Data that `sheets.py` turns into the files of the collection `tables`."""
PACKAGES = {"files": _FILES, "papers": _PAPERS, "tables": _TABLES}
"""Packages by collection."""


def take_files(packages: Files, scratch: Path) -> Path:
    """Make a folder in `scratch` with the files of packages; raise TurnmarkError if one is missing or differs."""
    chosen = scratch / "chosen"
    chosen.mkdir()
    for package, files in packages.items():
        unpacked = _unpacked_package(package, scratch)
        for path, sha256 in files.items():
            _copy_checked(unpacked / "usr" / "share" / path, chosen, sha256)
    return chosen


def _unpacked_package(package: str, scratch: Path) -> Path:
    """Unpack a package, given as `NAME=VERSION`; return the folder with its content."""
    name = package.partition("=")[0]
    folder = scratch / name
    folder.mkdir()
    try:
        subprocess.run(["apt-get", "download", "-qq", package], cwd=folder, check=True)
        (archive,) = folder.glob("*.deb")
        subprocess.run(["dpkg-deb", "--extract", archive, folder], check=True)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise TurnmarkError(f"package {package} could not be downloaded and unpacked: {error}") from error
    return folder


def _copy_checked(source: Path, folder: Path, sha256: str) -> None:
    """Copy a file, decompressed if it ends in `.gz`, and compare its SHA-256."""
    try:
        content = source.read_bytes()
    except OSError as error:
        raise TurnmarkError(f"{source.name} could not be read: {error}") from error
    target = folder / source.name.removesuffix(".gz")
    target.write_bytes(gzip.decompress(content) if source.suffix == ".gz" else content)
    if file_sha256(target) != sha256:
        raise TurnmarkError(f"{target.name}: SHA-256 {file_sha256(target)}, expected {sha256}")
