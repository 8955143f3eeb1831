"""Environment for programs run by tools: what a developer's commands need, without secrets or prompts."""

import re
from collections.abc import Collection, Mapping
from functools import lru_cache

from teamwright.core.text import whole_number

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_NAMES = frozenset(
    # plain names read better here than a list of quoted ones
    """
    PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR TMP TEMP HOSTNAME COLUMNS LINES MANPATH INFOPATH NO_COLOR CI
    DISPLAY WAYLAND_DISPLAY WSL_DISTRO_NAME WSL_INTEROP WSLENV TEAMWRIGHT_HOME
    HTTP_PROXY HTTPS_PROXY ALL_PROXY FTP_PROXY NO_PROXY http_proxy https_proxy all_proxy ftp_proxy no_proxy
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE PIP_CERT AWS_CA_BUNDLE
    GIT_SSL_CAINFO GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_NOSYSTEM GIT_CEILING_DIRECTORIES GIT_SSH_COMMAND
    VIRTUAL_ENV VIRTUAL_ENV_PROMPT CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_EXE CONDA_PYTHON_EXE CONDA_SHLVL
    MAMBA_EXE MAMBA_ROOT_PREFIX PYENV_ROOT PYENV_VERSION PIPX_HOME PIPX_BIN_DIR PIP_CACHE_DIR PIP_INDEX_URL
    POETRY_HOME PDM_HOME
    UV_CACHE_DIR UV_PYTHON UV_INDEX_URL UV_DEFAULT_INDEX UV_PROJECT_ENVIRONMENT UV_OFFLINE HATCH_ENV
    NVM_DIR NVM_BIN FNM_DIR VOLTA_HOME BUN_INSTALL DENO_DIR PNPM_HOME COREPACK_HOME
    npm_config_cache npm_config_prefix npm_config_registry
    GOPATH GOROOT GOBIN GOCACHE GOMODCACHE GOFLAGS GOPROXY GOPRIVATE GONOSUMDB GOSUMDB GOTOOLCHAIN GOOS GOARCH
    GOWORK GO111MODULE
    JAVA_HOME JDK_HOME JAVA_OPTS JAVA_TOOL_OPTIONS MAVEN_HOME M2_HOME MAVEN_OPTS GRADLE_HOME GRADLE_USER_HOME
    GRADLE_OPTS SDKMAN_DIR ANDROID_HOME ANDROID_SDK_ROOT KOTLIN_HOME SCALA_HOME
    GEM_HOME GEM_PATH RBENV_ROOT RBENV_VERSION BUNDLE_PATH BUNDLE_GEMFILE RUBYLIB RUBYOPT COMPOSER_HOME
    DOTNET_ROOT DOTNET_CLI_TELEMETRY_OPTOUT NUGET_PACKAGES PERL5LIB PERL_MM_OPT PERL_LOCAL_LIB_ROOT
    CC CXX CPP LD AR AS NM RANLIB CFLAGS CXXFLAGS CPPFLAGS LDFLAGS CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH
    LIBRARY_PATH LD_LIBRARY_PATH PKG_CONFIG_PATH PKG_CONFIG_LIBDIR ACLOCAL_PATH SDKROOT DEVELOPER_DIR
    MACOSX_DEPLOYMENT_TARGET CCACHE_DIR SCCACHE_DIR CUDA_HOME CUDA_PATH CUDA_VISIBLE_DEVICES OMP_NUM_THREADS
    HOMEBREW_PREFIX HOMEBREW_CELLAR HOMEBREW_REPOSITORY ASDF_DIR ASDF_DATA_DIR MISE_DATA_DIR
    DOCKER_HOST DOCKER_CONTEXT DOCKER_BUILDKIT
    """.split()
)
_PREFIXES = (
    "LC_",
    "XDG_",
    "PYTHON",
    "NODE_",
    "CARGO_",
    "RUSTUP_",
    "RUST_",
    "RUSTFLAGS",
    "RUSTC",
    "CGO_",
    "CMAKE_",
    "NIX_",
    "GIT_AUTHOR_",
    "GIT_COMMITTER_",
)
_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|COOKIE|HEADERS|AUTH(?!OR(_|$))"
    r"|(?<![A-Z])(?:PAT|PWD?|CREDS?|JWT|BEARER|SIG|SIGNATURE)(?![A-Z])",
    re.IGNORECASE,
)
_SECRETS_PLACE = re.compile(r"(?:SOCK|FILE|PATH|DIR|ASKPASS|XAUTHORITY)$", re.IGNORECASE)  # only the place of a secret
# A password or a token inside an address; a proxy may be written without its scheme.
_SECRET_VALUE = re.compile(
    r"(?i)://[^/\s@]*:[^\s@]*@|://[^/\s@]{8,}@|[?&][\w.%-]*(?:key|token|secret|pass|credential|auth|sig)[\w.%-]*="
)
_SECRET_PROXY = re.compile(r"^[^/\s@]+@")

# Keeps editors, pagers, password prompts and wizards from waiting for a person who is not there.
_FIXED = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",
    "SSH_ASKPASS_REQUIRE": "never",
    "PIP_NO_INPUT": "1",
    "DEBIAN_FRONTEND": "noninteractive",
}


_GIT_CONFIG = {"safe.bareRepository": "explicit"}  # a mere look-alike does not count as a repository


def _git_settings(env: Mapping[str, str]) -> dict[str, str]:
    """Settings passed to git in its environment, after those already there."""
    start = whole_number(env.get("GIT_CONFIG_COUNT", "")) or 0
    named = {
        f"GIT_CONFIG_{part}_{n}": told
        for n, pair in enumerate(_GIT_CONFIG.items(), start)
        for part, told in zip(("KEY", "VALUE"), pair, strict=True)
    }
    return {"GIT_CONFIG_COUNT": str(start + len(_GIT_CONFIG)), **named}


def tool_environment(env: Mapping[str, str], extra: Mapping[str, str], passed: Collection[str] = ()) -> dict[str, str]:
    """The listed variables of `env`, those in `passed` that a person lets through, and `extra`, which has the last
    word.

    The list deliberately omits access to secrets (SSH_AUTH_SOCK, DBUS_SESSION_BUS_ADDRESS, KUBECONFIG) and variables
    that change how a shell starts (BASH_ENV, ENV, SHELLOPTS, exported functions).
    """
    kept = {name: value for name, value in env.items() if _harmless(name, value)}
    named = {name: env[name] for name in passed if name in env}
    whole = {"PATH": _PATH} | kept | _FIXED | named | dict(extra)
    return whole | _git_settings(whole) | {"PATH": _absolute(whole["PATH"])}


def _absolute(path: str) -> str:
    """Drops `.` and other relative entries: a file in the current directory must not pass for `ls`."""
    return ":".join(folder for folder in path.split(":") if folder.startswith("/")) or _PATH


def holds_secret(name: str) -> bool:
    """Does a variable of this name hold a key, token or password, rather than the place of one?"""
    return bool(_SECRET_NAME.search(name)) and not _SECRETS_PLACE.search(name)


@lru_cache(1024)
def _harmless(name: str, value: str) -> bool:
    if not (name in _NAMES or name.startswith(_PREFIXES)) or _SECRET_NAME.search(name):
        return False
    told = _SECRET_VALUE.search(value) or (name.lower().endswith("_proxy") and _SECRET_PROXY.search(value))
    return not told
