# Shared by the scripts: messages, and finding or making what they need. To be sourced, not run.
# It keeps to what macOS's bash 3.2 knows.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv="$root/.venv"

say() { printf '%s\n' "$*" >&2; }
fail() { say "error: $*"; exit 1; }

# step <what> <command...>: one line with the seconds it took; the command's output only if it fails.
step() {
  local what=$1 start=$SECONDS log
  shift
  log=$(mktemp)
  printf '%s ... ' "$what" >&2
  if "$@" >"$log" 2>&1 </dev/null; then
    say "$((SECONDS - start)) s"
    rm -f "$log"
  else
    say "failed after $((SECONDS - start)) s"
    tail -n 40 "$log" >&2
    fail "$what failed; the whole output is in $log"
  fi
}

# as_root <command...>: run it as root without a prompt. can_be_root: whether that is possible.
can_be_root() { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
has() { command -v "$1" >/dev/null 2>&1; }

apt_install() {
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

# -- Python -------------------------------------------------------------------------------------------

# Those versions the lock was made for. 3.14 comes last: immutables has no wheel for it and needs a C compiler.
find_python() {
  local name
  if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- python3 python3.13 python3.12 python3.11 python3.10 python3.14; fi
  for name; do
    if "$name" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then
      command -v "$name"
      return
    fi
  done
  [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON is not a Python 3.10 to 3.14"
  fail "Python 3.10 to 3.14 is needed and none is on the PATH: install one, or set PYTHON to it"
}

make_venv() {
  local python package
  python=$(find_python)
  if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then # Debian and Ubuntu ship these apart
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    has apt-get && can_be_root || fail "$python cannot make virtual environments: sudo apt-get install $package"
    step "installing $package" apt_install "$package"
  fi
  step "making .venv with $("$python" --version)" "$python" -m venv --clear "$venv"
}

pip_install() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$@"; }

# .venv with exactly the packages of requirements.lock and the project itself; nothing to do if they are there.
ensure_python() {
  local stamp
  stamp="$root $(cat "$root/requirements.lock" "$root/pyproject.toml" | cksum)"
  if [ -x "$venv/bin/python" ] && [ "$(cat "$venv/stamp" 2>/dev/null)" = "$stamp" ]; then
    compile_ours
    compiled_pyspark
    return
  fi
  rm -f "$venv/stamp"
  "$venv/bin/python" -m pip --version >/dev/null 2>&1 || make_venv
  step "installing the packages of requirements.lock (PySpark alone is 450 MB)" \
    pip_install --require-hashes -r "$root/requirements.lock"
  step "installing spark_eos" pip_install --no-deps --no-build-isolation -e "$root"
  compile_ours
  compiled_pyspark
  printf '%s\n' "$stamp" >"$venv/stamp"
}

# pip compiles what it installs, but not this folder, and where PYTHONDONTWRITEBYTECODE is set (images set it)
# nothing else does: each of the many processes that Spark starts would compile it again, a fifth of its imports.
compile_ours() {
  "$venv/bin/python" -m compileall -qq "$root/spark_eos" "$root/pyspark_eoslog.py" || : # what fails is compiled when it is run
}

# Spark puts its pyspark.zip before all else on the path of the Python processes that it starts, seven or more for a query.
# A zip has no compiled files: each of them would compile PySpark anew, half a second of processor time. The same PySpark
# is installed in .venv, compiled: it is taken from there.
compiled_pyspark() {
  "$venv/bin/python" - <<'EOF'
import pathlib, sysconfig
packages = pathlib.Path(sysconfig.get_path("purelib"))
line = f"import sys; sys.path[:] = [path for path in sys.path if not path.startswith({str(packages / 'pyspark')!r} + '/')]\n"
file = packages / "_compiled_pyspark.pth"
if not file.exists() or file.read_text() != line:
    file.write_text(line)
EOF
}

# Python, the packages' commands and Spark are those of $venv from here on.
use_venv() {
  # Another Spark on this machine must not mix with the one in the environment.
  unset SPARK_HOME SPARK_CONF_DIR SPARK_REMOTE PYSPARK_SUBMIT_ARGS PYTHONPATH
  # Images set this. Then each process compiles again what is not installed, and pytest rewrites all tests in each of its own.
  unset PYTHONDONTWRITEBYTECODE
  export PATH="$venv/bin:$PATH"
  export PYSPARK_PYTHON="$venv/bin/python" PYSPARK_DRIVER_PYTHON="$venv/bin/python"
  export SPARK_LOCAL_IP=127.0.0.1 # a machine's own name need not resolve
}

# -- Java ---------------------------------------------------------------------------------------------

# java_home <java command>: its home if it is Java 17 or newer.
java_home() {
  local facts version
  facts=$("$1" -XshowSettings:properties -version 2>&1) || return 1
  version=$(printf '%s\n' "$facts" | sed -n 's/^ *java\.specification\.version = //p')
  [ "${version%%.*}" -ge 17 ] 2>/dev/null || return 1
  printf '%s\n' "$facts" | sed -n 's/^ *java\.home = //p'
}

# The home of the first Java 17 or newer: the user's choice, the PATH's, then where systems install it.
find_java() {
  local home
  for home in "${JAVA_HOME:-/nonexistent}/bin/java" java /usr/lib/jvm/*/bin/java \
    "$(/usr/libexec/java_home -v 17+ 2>/dev/null)/bin/java" \
    /opt/homebrew/opt/openjdk*/bin/java /usr/local/opt/openjdk*/bin/java; do
    java_home "$home" && return
  done
  return 1
}

# The first Java from 17 on that the system's package manager has, without a desktop where it has that.
install_java() {
  local version
  for version in 17 21 25; do
    if has apt-get; then
      apt_install "openjdk-$version-jre-headless" && return
    elif has dnf; then
      as_root dnf install -y -q "java-$version-openjdk-headless" && return
    elif has apk; then
      as_root apk add --quiet "openjdk$version-jre-headless" && return
    elif has pacman; then
      as_root pacman -S --noconfirm --needed "jre$version-openjdk-headless" && return
    elif has brew; then
      brew install --quiet "openjdk@$version" && return
    fi
  done
  return 1
}

ensure_java() {
  if ! JAVA_HOME=$(find_java); then
    if has brew || { can_be_root && { has apt-get || has dnf || has apk || has pacman; }; }; then
      step "installing Java" install_java
    fi
    JAVA_HOME=$(find_java) || fail "Java 17 or newer is needed: install it (Debian, Ubuntu: sudo apt-get" \
      "install openjdk-17-jre-headless; macOS: brew install openjdk@17) or set JAVA_HOME"
  fi
  export JAVA_HOME
}

# -- Spark's classes ----------------------------------------------------------------------------------

# An archive of the classes that Spark loads (JEP 350), made by a first stream: with it a session with one query took
# half the time, one with a stream four fifths, and the demo and the tests start many. A JVM that it does not fit goes
# without; so do all if it could not be made.
ensure_archive() {
  local archive="$venv/spark.jsa" mute="-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off" stamp options submit daemon
  stamp="$root $JAVA_HOME $(cat "$JAVA_HOME/release" "$root/requirements.lock" 2>/dev/null | cksum)"
  if [ "$(cat "$archive.stamp" 2>/dev/null)" != "$stamp" ]; then
    rm -f "$archive"
    step "making an archive of Spark's classes, for quicker starts" first_stream "$archive" "$mute"
    printf '%s\n' "$stamp" >"$archive.stamp"
  fi
  options="$mute -XX:SharedArchiveFile=$archive"
  # shellcheck disable=SC2086 # Spark splits them at blanks, too: what a JVM does not take must not reach it.
  if [ -f "$archive" ] && "$JAVA_HOME/bin/java" $options -version >/dev/null 2>&1; then
    # What is set already stays, and wins; a script that calls another one adds it once.
    submit="${SPARK_SUBMIT_OPTS-}" daemon="${SPARK_DAEMON_JAVA_OPTS-}"
    export SPARK_SUBMIT_OPTS="$options ${submit#"$options "}" SPARK_DAEMON_JAVA_OPTS="$options ${daemon#"$options "}"
  fi
}

# The archive is written when the JVM ends, which spark-submit waits for; another script never sees half of it.
first_stream() {
  SPARK_SUBMIT_OPTS="$2 -XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit=$1.$$" \
    "$venv/bin/spark-submit" --master "local[2]" "$root/scripts/first_stream.py" || :
  mv "$1.$$" "$1" || :
}
