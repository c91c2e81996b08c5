//! The `garret.toml` files that the user trusts, remembered in the home by their path and content.
//!
//! Each file has a record of its own, named after a hash of the path, so that two processes never write one record for
//! different files. The content is kept, too, so that later changes can be shown. The home is hidden from every
//! workspace that contains it, so no tool and no command reaches a record.

#![allow(
    clippy::disallowed_methods,
    reason = "the command line keeps the records of trust in its home"
)]

use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use garret::path::quote;
use garret::{Config, Error, ErrorKind, Result, WideningSetting};
use serde::{Deserialize, Serialize};

use crate::config_file::{ConfigFile, open_unfollowed};
use crate::home::HomeChoice;
use crate::workspace_choice::{self, WorkspaceChoice};

/// A file as the user trusted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrustRecord {
    /// Its path, without links.
    pub(crate) path: String,
    /// The BLAKE3 of its content.
    pub(crate) hash: String,
    /// Its content.
    pub(crate) content: String,
}

impl TrustRecord {
    /// Makes the record of a file as it is now; `invalid` if its path is not UTF-8.
    pub(crate) fn of_file(file: &ConfigFile) -> Result<Self> {
        let not_utf8 = || Error::invalid("the path of this file is not UTF-8").hint("give it with --config FILE");
        Ok(Self {
            path: file.path.to_str().ok_or_else(not_utf8)?.to_owned(),
            hash: hash_of(file.text.as_bytes()),
            content: file.text.clone(),
        })
    }

    /// Whether this is a record of `file` as it is now.
    pub(crate) fn matches_file(&self, file: &ConfigFile) -> bool {
        self.is_at(&file.path) && self.hash == hash_of(file.text.as_bytes())
    }

    fn is_at(&self, path: &Path) -> bool {
        Path::new(&self.path) == path
    }

    /// Whether the file, as it was trusted, configured the workspace that `-w` names.
    fn configures_name(&self, text: &str) -> bool {
        Config::from_toml(&self.content).is_ok_and(|config| is_configured(text, &config))
    }
}

/// Whether `-w` names a workspace of the configuration.
fn is_configured(text: &str, config: &Config) -> bool {
    let choice = workspace_choice::choose_workspace(text, Some(config));
    matches!(choice, WorkspaceChoice::Configured(..))
}

fn hash_of(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// The records of a home.
#[derive(Debug)]
pub(crate) struct TrustStore {
    directory: PathBuf,
}

impl TrustStore {
    pub(crate) fn of_home(home: &HomeChoice) -> Self {
        Self {
            directory: home.directory.join("trust"),
        }
    }

    /// Returns the record of the file at `path`, a path without links.
    pub(crate) fn record_of(&self, path: &Path) -> Result<Option<TrustRecord>> {
        let record = read_record(&self.record_path(path))?;
        match record {
            // The name of the record does not match its path: the record of another file was copied here.
            Some(record) if !record.is_at(path) => Err(damaged_error()),
            other => Ok(other),
        }
    }

    /// Returns all records, in the order of their paths.
    pub(crate) fn records(&self) -> Result<Vec<TrustRecord>> {
        let entries = match std::fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|_| damaged_error())?,
        };
        let mut records = Vec::new();
        for entry in entries {
            let path = entry.map_err(|_| damaged_error())?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                records.extend(read_record(&path)?);
            }
        }
        records.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(records)
    }

    /// Writes a record in place of the one before it. It survives a loss of power.
    pub(crate) fn save_record(&self, record: &TrustRecord) -> Result<()> {
        self.write_record(record).map_err(|_| {
            Error::new(
                ErrorKind::Unavailable,
                "the record of trust cannot be written to the home",
            )
            .hint("check that the home can be written and has free space")
        })
    }

    fn write_record(&self, record: &TrustRecord) -> io::Result<()> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)?;
        // The temporary file has the mode 0600, whatever the umask is.
        let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.as_file().sync_all()?;
        file.persist(self.record_path(Path::new(&record.path)))?;
        // A rename survives a loss of power only when its directory is synced, too.
        std::fs::File::open(&self.directory)?.sync_all()
    }

    /// Removes the record of the file at `path`; says whether there was one.
    pub(crate) fn remove_record(&self, path: &Path) -> Result<bool> {
        match std::fs::remove_file(self.record_path(path)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(_) => Err(
                Error::new(ErrorKind::Unavailable, "the record of trust cannot be removed")
                    .hint("check that the home can be written"),
            ),
        }
    }

    fn record_path(&self, path: &Path) -> PathBuf {
        let name = hash_of(path.as_os_str().as_bytes());
        self.directory.join(format!("{name}.json"))
    }
}

fn read_record(place: &Path) -> Result<Option<TrustRecord>> {
    let (mut file, metadata) = match open_unfollowed(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|_| damaged_error())?,
    };
    const OTHERS_CAN_WRITE: u32 = 0o022;
    let user = rustix::process::geteuid().as_raw();
    let is_own = metadata.is_file() && (metadata.uid() == user || metadata.uid() == 0);
    let mut bytes = Vec::new();
    let is_read = is_own && metadata.mode() & OTHERS_CAN_WRITE == 0 && file.read_to_end(&mut bytes).is_ok();
    let record: Option<TrustRecord> = serde_json::from_slice(&bytes).ok().filter(|_| is_read);
    match record {
        Some(record) if record.hash == hash_of(record.content.as_bytes()) => Ok(Some(record)),
        _ => Err(damaged_error()),
    }
}

fn damaged_error() -> Error {
    Error::new(
        ErrorKind::Denied,
        "a record of trust in the home is damaged, or other users can write it",
    )
    .hint("remove the folder `trust` of the home, and trust your files again")
}

/// Decides whether a found file counts in full. A file is trusted if its record has its content. It is an error if the
/// user trusted rules for `text` and other rules would take their place: the file changed, it is gone, or a nearer one
/// hides it.
pub(crate) fn is_trusted(
    found: Option<&ConfigFile>,
    candidates: &[PathBuf],
    text: &str,
    record_of: impl Fn(&Path) -> Result<Option<TrustRecord>>,
) -> Result<bool> {
    let own = match found {
        Some(file) => record_of(&file.path)?,
        None => None,
    };
    if let (Some(record), Some(file)) = (&own, found) {
        return if record.matches_file(file) {
            Ok(true)
        } else if is_configured(text, &file.config) || record.configures_name(text) {
            // Also if the changed file only narrows: rules that the user trusted may be missing from it.
            Err(changed_error(file))
        } else {
            Ok(false)
        };
    }
    for path in candidates {
        match record_of(path)? {
            Some(record) if record.configures_name(text) => return Err(displaced_error(&record, found)),
            _ => {}
        }
    }
    Ok(false)
}

fn changed_error(file: &ConfigFile) -> Error {
    let message = format!("{} changed since it was trusted", quote(&file.shown));
    Error::new(ErrorKind::Denied, message).hint("`garret trust` shows the difference and asks again")
}

fn displaced_error(record: &TrustRecord, found: Option<&ConfigFile>) -> Error {
    let trusted = quote(&record.path);
    let message = match found {
        Some(file) => format!(
            "{} is not trusted, and hides {trusted}, which is trusted",
            quote(&file.shown)
        ),
        None => format!("the trusted file {trusted} no longer exists"),
    };
    Error::new(ErrorKind::Denied, message)
        .hint("restore the trusted file, or remove it from the list with `garret trust --remove FILE`")
}

/// Makes the error for settings that only a trusted file may have.
pub(crate) fn too_wide_error(file: &ConfigFile, name: &str, settings: &[WideningSetting]) -> Error {
    let listed: Vec<_> = settings
        .iter()
        .map(|setting| format!("{} ({})", quote(&setting.key), setting.reason))
        .collect();
    let message = format!(
        "{} is not trusted, and its workspace {} sets {}",
        quote(&file.shown),
        quote(name),
        listed.join(", ")
    );
    Error::new(ErrorKind::Denied, message).hint("`garret trust` shows what the file sets and asks whether you trust it")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: &str = "[workspaces.site]\nstorage = 'local:.'\n";

    fn file(path: &str, text: &str) -> ConfigFile {
        ConfigFile {
            config: Config::from_toml(text).unwrap(),
            directory: Path::new(path).parent().unwrap().to_owned(),
            path: path.into(),
            text: text.to_owned(),
            is_found: true,
            is_trusted: false,
            shown: "garret.toml".into(),
        }
    }

    /// Decides for `-w site` in `/p/sub`, if `found` is nearest and `/p/garret.toml` was trusted as `SITE`.
    fn decide(found: Option<&ConfigFile>) -> Result<bool> {
        let record = TrustRecord::of_file(&file("/p/garret.toml", SITE)).unwrap();
        let candidates = ["/p/sub/garret.toml", "/p/garret.toml", "/garret.toml"].map(PathBuf::from);
        let record_of = |path: &Path| Ok(record.is_at(path).then(|| record.clone()));
        is_trusted(found, &candidates, "site", record_of)
    }

    #[test]
    fn a_file_is_trusted_at_its_path_with_its_content() {
        assert!(decide(Some(&file("/p/garret.toml", SITE))).unwrap());
    }

    #[test]
    fn a_file_that_changed_is_refused_even_where_it_only_narrows() {
        let error = decide(Some(&file("/p/garret.toml", &format!("{SITE}# \n")))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert!(error.message().contains("changed since it was trusted"), "{error}");
        let renamed = file("/p/garret.toml", "[workspaces.other]\nstorage = 'local:.'\n");
        assert!(decide(Some(&renamed)).is_err(), "the rules for the name are gone");
    }

    #[test]
    fn a_file_that_hides_a_trusted_one_is_refused_for_what_that_configures() {
        let error = decide(Some(&file("/p/sub/garret.toml", SITE))).unwrap_err();
        assert!(error.message().contains("hides `/p/garret.toml`"), "{error}");
        assert!(decide(None).unwrap_err().message().contains("no longer exists"));
    }

    #[test]
    fn a_trusted_file_says_nothing_of_names_that_it_does_not_configure() {
        let record = TrustRecord::of_file(&file("/p/garret.toml", SITE)).unwrap();
        let record_of = |path: &Path| Ok(record.is_at(path).then(|| record.clone()));
        let nearer = file("/p/sub/garret.toml", "[workspaces.sub]\nstorage = 'local:.'\n");
        let candidates = [PathBuf::from("/p/sub/garret.toml"), PathBuf::from("/p/garret.toml")];
        assert!(!is_trusted(Some(&nearer), &candidates, "sub", record_of).unwrap());
    }

    #[test]
    fn a_record_is_kept_private_and_read_back_and_forgotten() {
        let room = tempfile::tempdir().unwrap();
        let store = TrustStore {
            directory: room.path().join("trust"),
        };
        let record = TrustRecord::of_file(&file("/p/garret.toml", SITE)).unwrap();
        let path = Path::new("/p/garret.toml");
        assert_eq!(store.record_of(path).unwrap(), None);
        assert_eq!(store.records().unwrap(), Vec::new());
        store.save_record(&record).unwrap();
        store.save_record(&record).unwrap();
        assert_eq!(store.record_of(path).unwrap().as_ref(), Some(&record));
        assert_eq!(store.records().unwrap(), [record]);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&store.directory), mode(&store.record_path(path))), (0o700, 0o600));
        assert!(store.remove_record(path).unwrap() && !store.remove_record(path).unwrap());
        assert_eq!(store.record_of(path).unwrap(), None);
    }

    #[test]
    fn a_record_that_was_tampered_with_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let room = tempfile::tempdir().unwrap();
        let store = TrustStore {
            directory: room.path().join("trust"),
        };
        let record = TrustRecord::of_file(&file("/p/garret.toml", SITE)).unwrap();
        let (path, other) = (Path::new("/p/garret.toml"), Path::new("/q/garret.toml"));
        store.save_record(&record).unwrap();
        std::fs::copy(store.record_path(path), store.record_path(other)).unwrap();
        assert!(store.record_of(other).is_err(), "it is the record of another file");
        std::fs::set_permissions(store.record_path(path), PermissionsExt::from_mode(0o666)).unwrap();
        assert!(store.record_of(path).is_err(), "other users can write it");
        let edited = serde_json::json!({"path": "/p/garret.toml", "hash": record.hash, "content": "other"});
        std::fs::write(store.record_path(other), edited.to_string()).unwrap();
        assert!(store.record_of(other).is_err(), "its hash is not that of its content");
    }
}
