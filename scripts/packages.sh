# Shared by the scripts that install Python and Node packages. Source it after lib.sh.
# The packages go to the cache, each set into a folder named after what it holds; the repository has links to them at fixed places.

# Names a folder after what went into it, so that a changed pin or interpreter makes a new one.
digest() { sha256sum | cut -c1-16; }

# Points a fixed name in the repository at a folder of the cache.
link() {
  [[ -L $2 || ! -e $2 ]] || die "$2 is in the way: a link is kept there; move it aside"
  ln -sfn "$1" "$2"
}

# Keeps two setups from installing the same folder at once.
lock_cache() {
  mkdir -p "$GARRET_CACHE"
  exec 8>"$GARRET_CACHE/setup.lock"
  flock 8
}

# python_packages REQUIREMENTS LINK: a virtual environment with what the file pins.
python_packages() {
  local home
  home="$GARRET_CACHE/python-$({ python3 -VV; cat "$1"; } | digest)"
  if [[ ! -e $home/complete ]]; then
    rm -rf "$home"
    python3 -m venv "$home"
    retry "$home/bin/pip" install --quiet --disable-pip-version-check --requirement "$1"
    touch "$home/complete"
  fi
  link "$home" "$2"
}

# node_packages FOLDER: what the lock file in the folder pins.
# --ignore-scripts: nothing these packages want to run at install time is needed.
node_packages() {
  local home
  home="$GARRET_CACHE/node-$({ node --version; cat "$1/package-lock.json"; } | digest)"
  if [[ ! -e $home/complete ]]; then
    rm -rf "$home"
    mkdir -p "$home"
    cp "$1/package.json" "$1/package-lock.json" "$home/"
    retry npm ci --prefix "$home" --ignore-scripts --no-audit --no-fund --loglevel=error
    touch "$home/complete"
  fi
  link "$home/node_modules" "$1/node_modules"
}
