"""Collections of files from Debian packages: the packages, the files, and their extraction."""

from __future__ import annotations

import gzip
import subprocess
from collections.abc import Mapping
from pathlib import Path

from turnmark.core.errors import TurnmarkError
from turnmark.core.home import file_sha256

Files = Mapping[str, Mapping[str, str]]
"""Package and version: its files below `/usr/share`, and the SHA-256 of each, unpacked if it ends in `.gz`.

A file keeps the folders after `/./`, such as those in which a page looks for its pictures.
"""

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
_PICTURES: Files = {
    "kst-doc=2.0.8-5": {
        "doc/kst-doc/tutorial/./ch04.html": "4ea177a1065633492718e5194cf3e1ee2f085a88d67ceb9ae7de10ecf3d2bd86",
        "doc/kst-doc/tutorial/./Icon-kst-datawizard.png": (
            "4e7bf6b0f75b61b000d1c9e8d6a2610e432b6f69621ea9821ace52cfbb547a7c"
        ),
        "doc/kst-doc/tutorial/./Screenshot-kst-datawizard2.png": (
            "d8d3a0dc990c7dfe6c2171d8e6d1b2d8010f50b7fc6c096ff263cbead309c509"
        ),
        "doc/kst-doc/tutorial/./Screenshot-kst-datawizard3.png": (
            "9ae7200b40ccc733e35633f8c112c00a2f401226a5875e082a02c985a045a2b9"
        ),
        "doc/kst-doc/tutorial/./Screenshot-kst-filesave.png": (
            "094aedad2e40ff2e3b63acfdee1c441573f6702f377451cf314af18f1abb0f3b"
        ),
        "doc/kst-doc/tutorial/./Screenshot-kst-tutorial-datawizard-done.png": (
            "6ddee479a2ca6a66e9aa0b9d06ec26d03cb5418462b688dcc8793404aa4e9726"
        ),
        "doc/kst-doc/tutorial/./ch05.html": "7f6c303f9188c3c01517e115e5b2a032f70529bafbe5f4c5ac9ba991dca0fbc4",
        "doc/kst-doc/tutorial/./Icon-kst-layoutmode.png": (
            "b779f2fa36c86a071a811dca232f94eb05244ddb0a21082642fe38020bb80e36"
        ),
        "doc/kst-doc/tutorial/./Icon-kst-tiedzoom.png": (
            "da5c77104dc17480206fef10adb0428391f7df3ee77d999f096bb8331abb9161"
        ),
        "doc/kst-doc/tutorial/./Icon-kst-xmousezoom.png": (
            "bc74dfeccbee65b5222f281b4844f46957caee59f222b781f2d732dd59d9a486"
        ),
        "doc/kst-doc/tutorial/./Icon-kst-xymousezoom.png": (
            "3ab40ca4f483ab97e7878f0f969d084be95adafa7dfcc021d0169b4c28db2f1c"
        ),
        "doc/kst-doc/tutorial/./Screenshot-kst-tiedzoom.png": (
            "864368b9b85dec0d451ae7ed5d1006afd62120d62867631eff149d0096c5ed1f"
        ),
        "doc/kst-doc/tutorial/./Screenshot-kst-zoom.png": (
            "ba92ab0898e57a89c736cdc18a79991b33ba13441d96b70e8bff2fd2bb511c36"
        ),
        "doc/kst-doc/tutorial/./Screenshot-kst-zoomin.png": (
            "f90d5301e72c2af55738d9ea2b124cda801f364795bc15f615b93034c7b9079e"
        ),
        "doc/kst-doc/tutorial/./ch06.html": "3b569463c8fae59573f893d6429e8725a0d242fa402e8368a57f054e601dd798",
        "doc/kst-doc/tutorial/./Equation-kst-correctedpitch.png": (
            "e172f1cb1bfd75e21085fcbb2373866c4bce2ce77b73cb539dfc513a5a1f8d03"
        ),
        "doc/kst-doc/tutorial/./Icon-kst-datamanager.png": (
            "b8fbbaaa83d952569b84ee22fc128a4fff4c7aef0dece0355b91eb260f5bead4"
        ),
        "doc/kst-doc/tutorial/./Screenshot-kst-datamanager.png": (
            "22f419e013d1b69086534e5aeda73075c630f6ea4718d53353376e7d0c26ece2"
        ),
        "doc/kst-doc/tutorial/./Screenshot-kst-demo.png": (
            "2c479690a323fe787afdda528ae9b6d0934dbfc9c00745470fc9dad551ba9e59"
        ),
        "doc/kst-doc/tutorial/./Screenshot-kst-democorrected.png": (
            "989905ab9d1b6da9ca3aac82820d63c8ff1bd2bc86b967d144d3a5a3a765160e"
        ),
        "doc/kst-doc/tutorial/./Screenshot-kst-editequation.png": (
            "c293b7ba2f3431346057cc75b1c49efe2f287295601300bb718ab8b056bdb91b"
        ),
        "doc/kst-doc/tutorial/./Symbol-kst-theta.png": (
            "57ec7b1592234d29e03fe3db74770436aff1d55adf853d7ce9cf3d2f0901d99c"
        ),
        "doc/kst-doc/tutorial/./ch07.html": "57c5d13f67cae9f3cd418720ccd66ea20976822204e969a2b69d4b754ffdad7f",
        "doc/kst-doc/tutorial/./Screenshot-kst-debuglog.png": (
            "d2936fb1d62e1ed17d139a4d1d8c9859c8053b620b05be1c30e9363a798f4289"
        ),
        "doc/kst-doc/tutorial/./Screenshot-kst-eventmonitor.png": (
            "09053fb5954a8faa9173255bff311cea2396df02ea1de0c24b3e719ea7406f28"
        ),
        "doc/kst-doc/tutorial/./Screenshot-kst-fittedline.png": (
            "44dfe8cc64fa3750d32e56c6349a7ec0adea236bc6fc7dffa71bb9091887d82e"
        ),
        "doc/kst-doc/tutorial/./Screenshot-kst-maxima-datapoints.png": (
            "9f2a7d7fb1dc2f76b49600476d67961307c91ebe93789820f35f56dd2fef6881"
        ),
    },
    "libdds-dev=2.9.0-9": {
        "doc/libdds-dev/2014-11 Performance and Benchmarking.pdf.gz": (
            "dd49b1359922b7c9b95222f71f2abb282a08b8c85d60b86c651e0d074b5f62bd"
        ),
    },
    "libtango-doc=9.3.4+dfsg1-2+deb12u1": {
        "doc/tango/html/_downloads/7b01b2a3d74551e8ff453ae6034b2dc5/hdbcassandra-tango-workshop.pptx.gz": (
            "5941a4b274521f4bf9e6199844f195fadface69ec66b865bdf2fc6926da7560f"
        ),
    },
    "nut-doc=2.8.0-7": {
        "doc/nut-doc/pdf/cables.pdf": "eab994ac06f75d711548b599bae617446fcff13500c8b69ffb7714cb9b2678ad",
    },
    "previsat=3.5.1.7+dfsg1-5": {
        "Astropedia/PreviSat/doc/PreviSat_en.docx": "d9acb186d19bf08a3e38ce82c03bf4eed9770f1c7bd0e59fb0a5b37cdb27802c",
    },
    "python3-skyfield=1.45+ds-2": {
        "doc/python3-skyfield/html/./searches.html": "853f3cc98b242f3a740d460ae663b9e069b9396a809caa2f4d05ca0529e38e5d",
        "doc/python3-skyfield/html/./_images/mars-elongation.png": (
            "cc099ea7cb5e9189c8317bf44bb636d9628da4d2ee0ca5ba8de56373bd234593"
        ),
        "doc/python3-skyfield/html/./_images/mars-quadrature-undersampled.png": (
            "9292997fdf1f742d7c250dd9a467e0298176618caa96da9559a726ca1c8fc676"
        ),
        "doc/python3-skyfield/html/./_images/mars-quadrature.png": (
            "3b85e32b78ee2329d987cda352482b99e1ebff67d909764ac86ab628ef17b2a6"
        ),
        "doc/python3-skyfield/html/./_images/venus-elongation-undersampled.png": (
            "82fbaf15dea954ee5df45d0a4a40aa585a2d7194c32f994dac65e138839a0e3a"
        ),
        "doc/python3-skyfield/html/./_images/venus-elongation.png": (
            "3cd861e2e7af9e307b1c55bd256ce4d65ba8c2c867ca9dc0c42eb95e520af4a3"
        ),
        "doc/python3-skyfield/html/./example-plots.html": (
            "249d6ee8fa1107f1541e87abb09106ce5a12dd555d64afd8dcbafd131206d683"
        ),
        "doc/python3-skyfield/html/./_images/goce-reentry.png": (
            "cd63a3d3591ff3b555e7c460de9ac6d9a8a1e3975ae284070d80b6bae33df1f2"
        ),
        "doc/python3-skyfield/html/./_images/neowise-finder-chart.png": (
            "2cb7529f162b900f9c4dfc9fb5172127c3b9286741eff94d5bb9b4be3d56212d"
        ),
        "doc/python3-skyfield/html/./_images/venus_evening_chart.png": (
            "f108327d0af4991e1afef6a3bea7ac9522e932842242a08f4b6f7399f9c8265b"
        ),
    },
    "r-cran-forecast=8.20-1": {
        "../lib/R/site-library/forecast/doc/JSS2008.pdf": (
            "396a0fc6ab2b5ef5fe602c963a5b1b4969d42cede7038010bbfe36cb91fd3a2f"
        ),
    },
    "r-cran-party=1.3-11-1": {
        "../lib/R/site-library/party/doc/MOB.pdf": "e513d3a843555becac92adb7ee39d49cc24f0fdc8cc1a0a1b5ebef5f6dc7c6de",
    },
    "r-cran-strucchange=1.5-3-1": {
        "../lib/R/site-library/strucchange/doc/strucchange-intro.pdf": (
            "56587481ea07ff51645290c24e328d4461656bcbf19d6e9426056e7559a4a198"
        ),
    },
    "r-cran-survival=3.5-3-1": {
        "../lib/R/library/survival/doc/concordance.pdf": (
            "081353813156f28af62bb67fbf2b4462d3370534fefd80ec360d11426cdbc924"
        ),
    },
    "slurm-wlm-doc=22.05.8-4+deb12u3": {
        "doc/slurm-wlm/html/./network.html": "c72efd9420fb823f92bce1c1cd31737ad2834839d0a7c8cfcd0bea8396c285e9",
        "doc/slurm-wlm/html/./network_failover.gif": "e5bb36b3f5376e2590868653fd3fd1d2bbd0c837bda8a7c380c38f77f73438ef",
        "doc/slurm-wlm/html/./network_federation.gif": (
            "d01a733f7c7fc5287e794b64ca46ba54d181cf63586c6734c380d204867ff65f"
        ),
        "doc/slurm-wlm/html/./network_multi_cluster.gif": (
            "73a77beba206b4163a1ebd1080e872cb3acff1f7c23d101109a9119fd7872d57"
        ),
        "doc/slurm-wlm/html/./network_srun.gif": "138d328c2fe700ebc0c1134ed39fbd981b4bed6de0826270f7662aa66cd7b3dc",
        "doc/slurm-wlm/html/./network_standard.gif": "15e5e7e05bd87d26ec21b0dd4d6683c1ccdf391b63dfd9406fc73a8d94ed7e78",
        "doc/slurm-wlm/html/./cgroup_v2.html": "68293523acdb22d1c214755c4138d22713d8077bb67065278d80f6c437886b67",
        "doc/slurm-wlm/html/./cg_hierarchy.jpg": "9b0ed442738cee8b2f888c7a28913223e6745dd596892c1bf1788b9dad00551c",
    },
    "w1retap-doc=1.4.6-1.1": {
        "doc/w1retap/w1retap.odt": "6c42c5d5c1b8bf5eddef264f5ffa38573eed1c6aa61bb909a88d426252480501",
    },
}
PACKAGES = {"files": _FILES, "papers": _PAPERS, "tables": _TABLES, "pictures": _PICTURES}
"""Packages by collection."""


def take_files(packages: Files, scratch: Path) -> Path:
    """Make a folder in `scratch` with the files of packages; raise TurnmarkError if one is missing or differs."""
    chosen = scratch / "chosen"
    chosen.mkdir()
    for package, files in packages.items():
        unpacked = _unpacked_package(package, scratch)
        for path, sha256 in files.items():
            _copy_checked(unpacked / "usr" / "share" / path, _target(chosen, path), sha256)
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


def _target(folder: Path, path: str) -> Path:
    """Return where a packaged file is copied to, without `.gz`."""
    _, mark, kept = path.partition("/./")
    target = folder / (kept if mark else Path(path).name).removesuffix(".gz")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _copy_checked(source: Path, target: Path, sha256: str) -> None:
    """Copy a file, decompressed if it ends in `.gz`, and compare its SHA-256."""
    try:
        content = source.read_bytes()
    except OSError as error:
        raise TurnmarkError(f"{source.name} could not be read: {error}") from error
    target.write_bytes(gzip.decompress(content) if source.suffix == ".gz" else content)
    if file_sha256(target) != sha256:
        raise TurnmarkError(f"{target.name}: SHA-256 {file_sha256(target)}, expected {sha256}")
