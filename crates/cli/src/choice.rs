//! Which workspace `-w` means, as a pure function of what was written and what is configured.

use garret::{Config, Error, Result};

/// What `-w` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    /// A storage by its URL.
    Url(String),
    /// A workspace of the configuration file.
    Name(String),
    /// A directory.
    Directory(String),
}

/// Reads `-w`: a URL by its kind and colon, else a configured name, else a directory. So a name that is also a directory keeps its
/// policy, and `./name` is the way around it.
pub(crate) fn choose(text: &str, config: Option<&Config>) -> Choice {
    if is_url(text) {
        Choice::Url(text.to_owned())
    } else if config.is_some_and(|config| config.workspaces.contains_key(text)) {
        Choice::Name(text.to_owned())
    } else {
        Choice::Directory(text.to_owned())
    }
}

fn is_url(text: &str) -> bool {
    let is_kind = |kind: &str| {
        !kind.is_empty()
            && kind
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    text.split_once(':').is_some_and(|(kind, _)| is_kind(kind))
}

/// The error for a choice that is nothing: neither configured nor a directory.
pub(crate) fn unknown(text: &str, config: Option<&Config>) -> Error {
    let names: Vec<&str> = config
        .map(|config| config.workspaces.keys().map(String::as_str).collect())
        .unwrap_or_default();
    let shown = garret::path::quote(text);
    let error = Error::invalid(format!(
        "{shown} is neither a directory, a storage URL, nor a workspace of garret.toml"
    ));
    match (garret::shape::nearest(text, names.iter().copied()), names.is_empty()) {
        (Some(near), _) => error.hint(format!("did you mean `{near}`?")),
        (None, false) => error.hint(format!("configured are: {}", names.join(", "))),
        (None, true) => error.hint("make the directory first, or use `memory:` for one that is gone afterwards"),
    }
}

/// Refuses `-w` beside a workspace given in another way.
pub(crate) fn one_of(flag: Option<&str>, argument: Option<&str>) -> Result<Option<String>> {
    match (flag, argument) {
        (Some(_), Some(_)) => Err(Error::invalid("the workspace is given twice").hint("leave out -w or the argument")),
        (flag, argument) => Ok(argument.or(flag).map(str::to_owned)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config::from_toml("[workspaces.notes]\nstorage = 'memory:'\n").unwrap()
    }

    #[test]
    fn a_url_is_known_by_its_kind() {
        assert_eq!(choose("memory:", None), Choice::Url("memory:".into()));
        assert_eq!(choose("local:/a b", None), Choice::Url("local:/a b".into()));
        assert_eq!(choose("./a:b", None), Choice::Directory("./a:b".into()));
    }

    #[test]
    fn a_configured_name_wins_over_a_directory() {
        assert_eq!(choose("notes", Some(&config())), Choice::Name("notes".into()));
        assert_eq!(choose("./notes", Some(&config())), Choice::Directory("./notes".into()));
        assert_eq!(choose("notes", None), Choice::Directory("notes".into()));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        assert_eq!(unknown("note", Some(&config())).hint_text(), "did you mean `notes`?");
        assert_eq!(
            unknown("zzzzzzzz", Some(&config())).hint_text(),
            "configured are: notes"
        );
    }

    #[test]
    fn two_workspaces_are_one_too_many() {
        assert!(one_of(Some("a"), Some("b")).is_err());
        assert_eq!(one_of(None, Some("b")).unwrap().as_deref(), Some("b"));
    }
}
