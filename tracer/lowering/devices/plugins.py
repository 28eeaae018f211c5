"""The wheels that bring a device to jaxlib: where they are, whether they fit, how to load them.

Nothing of jax is imported. The wheels' own `__init__` would import it, so their files are found
without executing them.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.metadata
import importlib.util
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jaxlib.version

from tracer.errors import DeviceError
from tracer.lowering.environment import temporary_variables
from tracer.lowering.shims import xla_client

_LOCK = threading.RLock()
_LOADED: dict[str, Any] = {}


@dataclass(frozen=True)
class Plugin:
    """One set of wheels that lets XLA compile for a platform.

    Attributes
    ----------
    platform : str
        "gpu" or "tpu".
    api : str
        The name under which XLA keeps the plugin: ours, so that jax may load the same one under its
        own, before or after.
    extra : str
        The extra of this package that installs it.
    wheels : tuple of str
        The installed wheels, the one with the library first.
    package, library : str
        The importable package that holds the library, and the library's file in it.
    prepare : callable
        What has to be done before the library is loaded.
    variables : callable
        Environment variables that the library reads while it is loaded.
    register : callable
        Hands the calls of the platform's libraries to XLA, once the plugin is loaded.
    of_jaxlib : bool
        The wheels are released with jaxlib, under its version, and fit no other.
    """

    platform: str
    api: str
    extra: str
    wheels: tuple[str, ...]
    package: str
    library: str
    prepare: Callable[[], None]
    variables: Callable[[], Mapping[str, str]]
    register: Callable[[Any], None]
    of_jaxlib: bool

    def versions(self) -> dict[str, str | None]:
        """Return the installed version of each wheel; None for one that is missing."""
        return {wheel: _version(wheel) for wheel in self.wheels}

    @property
    def is_installed(self) -> bool:
        """Whether any of the wheels is installed."""
        return any(self.versions().values())

    @property
    def install(self) -> str:
        """How to install it."""
        return f"pip install 'tracer[{self.extra}]'"

    def problem(self) -> str | None:
        """Return why the wheels that are installed cannot be used; None if they can."""
        versions = self.versions()
        missing = [wheel for wheel, version in versions.items() if version is None]
        if missing:
            return f"{', '.join(missing)} is not installed"
        ours = jaxlib.version.__version__
        others = {name: found for name, found in versions.items() if not _fits(found, ours)}
        if self.of_jaxlib and others:
            named = ", ".join(f"{name} {found}" for name, found in others.items())
            fits = "does not fit" if len(others) == 1 else "do not fit"
            return f"{named} {fits} jaxlib {ours}: the versions must be the same"
        if self.path is None:
            return f"{self.wheels[0]} is installed without its library {self.library}"
        return None

    @property
    def mend(self) -> str:
        """What to install instead."""
        if not self.of_jaxlib or not self.is_installed:
            return self.install
        pins = " ".join(f"{wheel}=={jaxlib.version.__version__}" for wheel in self.wheels)
        return f"pip install {pins} (or {self.install} in a new environment)"

    @property
    def path(self) -> Path | None:
        """The library's file."""
        try:
            found = importlib.util.find_spec(self.package)
        except ModuleNotFoundError:
            return None
        for folder in (found.submodule_search_locations or ()) if found else ():
            if (file := Path(folder) / self.library).exists():
                return file
        return None


def load(plugin: Plugin) -> Any:
    """Load a plugin once per process; return XLA's handle of it.

    Raises
    ------
    DeviceError
        The wheels are not installed, do not fit this jaxlib, or cannot be loaded.
    """
    with _LOCK:
        if plugin.api not in _LOADED:
            problem = plugin.problem()
            if problem is not None:
                raise DeviceError(problem, mend=plugin.mend)
            with temporary_variables(plugin.variables()):
                _LOADED[plugin.api] = _load(plugin)
        return _LOADED[plugin.api]


def _load(plugin: Plugin) -> Any:
    plugin.prepare()
    try:
        handle = xla_client.load_pjrt_plugin_dynamically(plugin.api, str(plugin.path))
        # A client of a plugin that is not initialised ends the process.
        if not xla_client.pjrt_plugin_initialized(plugin.api):
            xla_client.initialize_pjrt_plugin(plugin.api)
        plugin.register(handle)
    except (RuntimeError, ImportError, OSError) as error:
        found = ", ".join(f"{name} {version}" for name, version in plugin.versions().items())
        raise DeviceError(
            f"jaxlib {jaxlib.version.__version__} cannot load {found}: {error}", mend=plugin.mend
        ) from error
    return handle


def _version(wheel: str) -> str | None:
    try:
        return importlib.metadata.version(wheel)
    except importlib.metadata.PackageNotFoundError:
        return None


def _fits(found: str | None, ours: str) -> bool:
    # A plugin's wheel may be mended under a fourth number.
    return found is not None and (found == ours or found.startswith((f"{ours}.", f"{ours}+")))


def has_nvidia_driver() -> bool:
    """Tell whether the machine's kernel offers an NVIDIA GPU (the last one: in Windows' Linux)."""
    return any(os.path.exists(f"/dev/{name}") for name in ("nvidiactl", "nvidia0", "dxg"))


def has_tpu() -> bool:
    """Tell whether a TPU is on the PCI bus: a device of Google's that is an accelerator."""
    for file in Path("/sys/bus/pci/devices").glob("*/vendor"):
        kind = file.with_name("class")
        if file.read_text().strip() != _GOOGLE or not kind.exists():
            continue
        # Google's virtual network and disk devices have the classes of these.
        if not kind.read_text().startswith(("0x01", "0x02")):
            return True
    return False


_GOOGLE = "0x1ae0"
_NVIDIA_LIBRARIES = (
    "libcudart", "libnvrtc", "libcublas", "libcublasLt", "libnccl", "libcupti", "libcusparse",
    "libcusolver", "libcufft", "libnvshmem_host", "libcudnn",
)  # fmt: skip


def _load_nvidia_libraries() -> None:
    """Load NVIDIA's libraries from their wheels, if installed, so that XLA finds them."""
    spec = importlib.util.find_spec("nvidia")
    if not has_nvidia_driver() or spec is None:
        return
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    for library in _NVIDIA_LIBRARIES:
        for folder in folders:
            for file in sorted(folder.glob(f"*/lib/{library}.so.*")):
                ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)


def _variables_without_cloud() -> Mapping[str, str]:
    """Return what makes libtpu compile on a machine without a TPU.

    It would ask the cloud's metadata server for minutes which machine this is, and refuse a second
    process, as if there were a TPU to share.
    """
    return {} if has_tpu() else _NO_CLOUD


_NO_CLOUD = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}


def _register_cuda(version: int, handle: Any) -> None:
    """Register the calls of cuSOLVER, cuBLAS and the other libraries with XLA."""
    calls = importlib.import_module(f"jax_cuda{version}_plugin.cuda_plugin_extension")
    xla_client.register_custom_type_handler(
        "CUDA", functools.partial(calls.register_custom_type, handle)
    )
    xla_client.register_custom_call_handler(
        "CUDA", functools.partial(calls.register_custom_call_target, handle)
    )
    for name, value in calls.ffi_types().items():
        xla_client.register_custom_type(name, value, platform="CUDA")
    for name, value in calls.ffi_handlers().items():
        xla_client.register_custom_call_target(name, value, platform="CUDA", api_version=1)
    for module in ("gpu_solver", "gpu_linalg", "gpu_prng", "gpu_sparse"):
        library = importlib.import_module(f"jaxlib.{module}")
        for name, value, api in library.registrations().get("CUDA", ()):
            xla_client.register_custom_call_target(name, value, platform="CUDA", api_version=api)


def _nothing(*_: Any) -> None:
    """Prepare or register nothing: the TPU's compiler knows everything it can call."""


def _no_variables() -> Mapping[str, str]:
    return {}


def _cuda(version: int) -> Plugin:
    return Plugin(
        platform="gpu",
        api="tracer_cuda",
        extra=f"cuda{version}",
        wheels=(f"jax-cuda{version}-pjrt", f"jax-cuda{version}-plugin"),
        package=f"jax_plugins.xla_cuda{version}",
        library="xla_cuda_plugin.so",
        prepare=_load_nvidia_libraries,
        variables=_no_variables,
        register=functools.partial(_register_cuda, version),
        of_jaxlib=True,
    )


_TPU = Plugin(
    platform="tpu",
    api="tracer_tpu",
    extra="tpu",
    wheels=("libtpu",),
    package="libtpu",
    library="libtpu.so",
    prepare=_nothing,
    variables=_variables_without_cloud,
    register=_nothing,
    of_jaxlib=False,
)
PLUGINS: dict[str, tuple[Plugin, ...]] = {"gpu": (_cuda(13), _cuda(12)), "tpu": (_TPU,)}
"""The plugins of each platform, the preferred first."""


def plugin_of(platform: str) -> Plugin:
    """Return the installed plugin of a platform.

    Raises
    ------
    DeviceError
        None is installed, or none that fits.
    """
    known = PLUGINS[platform]
    installed = [plugin for plugin in known if plugin.is_installed]
    if not installed:
        wheels = " or ".join(plugin.wheels[-1] for plugin in known)
        raise DeviceError(
            f"there is no plugin for a {platform.upper()}: looked for the wheel {wheels}, found "
            "none of them",
            mend=" or ".join(plugin.install for plugin in known),
        )
    usable = [plugin for plugin in installed if plugin.problem() is None]
    if not usable:
        raise DeviceError(str(installed[0].problem()), mend=installed[0].mend)
    return usable[0]
