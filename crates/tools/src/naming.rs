//! The names under which tools are offered.
//!
//! Clients of models take names of letters, digits, `_` and `-`, at most 64 of them. A workspace may have any name, so
//! under the `prefixed` naming its name is adapted: one name always in the same way, and two names in two ways.

use garret_core::ToolNaming;

/// The room for the workspace's name: 64, without `workspace__`, `__` and 19 for the name of a tool, so that names stay
/// as they are when tools with longer names than today's are added.
const MAX_WORKSPACE_NAME: usize = 64 - 11 - 2 - 19;

/// Returns the name under which a tool is offered.
pub(crate) fn tool_name(naming: ToolNaming, workspace: &str, canonical: &str, short: &str) -> String {
    match naming {
        ToolNaming::Prefixed => format!("workspace__{}__{canonical}", fit_workspace_name(workspace)),
        ToolNaming::Flat => format!("workspace_{canonical}"),
        ToolNaming::Bare => canonical.to_owned(),
        ToolNaming::Short => short.to_owned(),
    }
}

/// Returns a workspace's name as a part of a tool's name.
fn fit_workspace_name(workspace: &str) -> String {
    let clean: String = workspace.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    if clean == workspace && !clean.is_empty() && clean.len() <= MAX_WORKSPACE_NAME {
        return clean;
    }
    // A changed name carries a mark of the original, so that `a b` and `a_b` stay apart.
    let mark = format!("-{:08x}", fingerprint(workspace));
    let kept = &clean[..clean.len().min(MAX_WORKSPACE_NAME - mark.len())];
    format!("{kept}{mark}")
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Returns the FNV-1a hash of the text.
fn fingerprint(text: &str) -> u32 {
    // The hasher of the standard library does not promise the same value on every machine and in every release.
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixed(workspace: &str) -> String {
        tool_name(ToolNaming::Prefixed, workspace, "read_file", "read")
    }

    #[test]
    fn each_naming_has_its_form() {
        assert_eq!(prefixed("box"), "workspace__box__read_file");
        assert_eq!(
            tool_name(ToolNaming::Flat, "box", "read_file", "read"),
            "workspace_read_file"
        );
        assert_eq!(tool_name(ToolNaming::Bare, "box", "read_file", "read"), "read_file");
        assert_eq!(tool_name(ToolNaming::Short, "box", "read_file", "read"), "read");
    }

    #[test]
    fn a_name_that_does_not_fit_is_changed_the_same_way_each_time() {
        assert_eq!(prefixed("my notes"), "workspace__my_notes-0dd440f6__read_file");
        assert_eq!(prefixed("my notes"), prefixed("my notes"));
    }

    #[test]
    fn names_that_would_fall_together_stay_apart() {
        let long = "x".repeat(80);
        let names = ["a b", "a_b", "a.b", "é", "è", "", &long, &format!("{long}y")].map(prefixed);
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }

    #[test]
    fn every_name_is_one_that_clients_take() {
        for workspace in ["", "box", "ünïcödé", &"long ".repeat(40), "a/b\n\"c\"", "__"] {
            let name = tool_name(ToolNaming::Prefixed, workspace, "create_code_context", "x");
            assert!(name.len() <= 64 && name.chars().all(is_plain), "{name}");
        }
    }
}
