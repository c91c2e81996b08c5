//! The default summary of a change whose caller gave none.

use garret_core::{Batch, Mutation};

/// The maximum number of bytes of a path in a summary.
const SHOWN: usize = 200;

/// Returns a summary of the batch: its first mutation, and the number of the others.
pub fn summary_of(batch: &Batch) -> String {
    let Some(first) = batch.mutations.first() else {
        return String::new();
    };
    match batch.mutations.len() - 1 {
        0 => describe_mutation(first),
        more => format!("{} and {more} more", describe_mutation(first)),
    }
}

fn describe_mutation(mutation: &Mutation) -> String {
    let shown = |path: &garret_core::WsPath| shorten_text(&path.to_quoted());
    match mutation {
        Mutation::Write { path, .. } => format!("write {}", shown(path)),
        Mutation::Append { path, .. } => format!("append to {}", shown(path)),
        Mutation::Remove { path, .. } => format!("remove {}", shown(path)),
        Mutation::Rename { from, to, .. } => format!("move {} to {}", shown(from), shown(to)),
        Mutation::Copy { from, to, .. } => format!("copy {} to {}", shown(from), shown(to)),
        Mutation::MakeDir { path, .. } => format!("make the directory {}", shown(path)),
        Mutation::Symlink { path, .. } => format!("link {}", shown(path)),
        Mutation::SetMode { path, mode } => format!("set the mode of {} to {mode:o}", shown(path)),
    }
}

fn shorten_text(text: &str) -> String {
    match text
        .char_indices()
        .map(|(index, _)| index)
        .find(|index| *index >= SHOWN)
    {
        Some(end) => format!("{}…`", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use garret_core::WsPath;

    use super::*;

    #[test]
    fn a_summary_names_the_first_step_and_counts_the_rest() {
        let write = |path: &str| Mutation::write(WsPath::parse(path).unwrap(), "x");
        assert_eq!(summary_of(&write("a b.txt").into()), "write `a b.txt`");
        let batch = Batch {
            mutations: vec![write("a"), write("b"), write("c")],
            ..Batch::default()
        };
        assert_eq!(summary_of(&batch), "write `a` and 2 more");
        let long = summary_of(&write(&"é".repeat(120)).into());
        assert!(long.len() < 220 && long.ends_with("…`"), "{long}");
    }
}
