//! What must hold of any bytes given as a patch.

use garret_workspace::text::LineEnding;
use garret_workspace::text::patch::{FilePatch, Hunk, HunkLine, PatchAction, PatchError, apply_file, parse_patch};

/// Parses `data` as a patch, applies each part of it to several contents, and checks what must hold.
pub fn patch(data: &[u8]) {
    let patch = match parse_patch(data) {
        Ok(patch) => patch,
        Err(error) => return check_error(&error),
    };
    assert!(!patch.files.is_empty(), "a patch names at least one file");
    for file in &patch.files {
        for original in [None, Some(b"".as_slice()), Some(data), Some(b"a\nb\nc\na\nb\n")] {
            check_apply(original, file);
        }
        check_own_content(file);
    }
}

fn check_error(error: &PatchError) {
    assert!(!error.to_string().is_empty() && !error.hint().is_empty(), "{error:?}");
}

fn check_apply(original: Option<&[u8]>, file: &FilePatch) {
    let applied = match apply_file(original, file) {
        Ok(applied) => applied,
        Err(error) => return check_error(&error),
    };
    assert_eq!(
        applied.content.is_none(),
        file.action == PatchAction::Delete,
        "only a deleted file has no content"
    );
    let again = apply_file(original, file).expect("what applied once applies again");
    assert_eq!(again, applied, "the same patch on the same file gives the same");
    if file.hunks.is_empty() && !matches!(file.action, PatchAction::Create | PatchAction::Delete) {
        assert_eq!(
            applied.content.as_deref(),
            original,
            "a patch without hunks leaves the content"
        );
    }
}

/// A hunk applies to a file that is exactly its old lines, and leaves exactly its new ones.
fn check_own_content(file: &FilePatch) {
    let ([hunk], PatchAction::Modify) = (file.hunks.as_slice(), file.action) else {
        return;
    };
    // A line that ends in a lone `\r`, cut off from its `\n`, cannot be put back together as it was.
    let is_plain = |line: &HunkLine| line.ending == LineEnding::Lf && !line.text.ends_with(b"\r");
    if !hunk.lines.iter().all(is_plain) || hunk.old_lines().next().is_none() {
        return;
    }
    let (old, new) = (joined(hunk.old_lines()), joined(hunk.new_lines()));
    if old == new {
        return;
    }
    let applied = apply_file(Some(&old), file).unwrap_or_else(|error| panic!("{hunk:?} on its own lines: {error}"));
    let content = applied.content.expect("the file is not deleted");
    assert_eq!(content, new, "{hunk:?}");
    check_counts(hunk, (applied.added, applied.removed));
}

fn joined<'a>(lines: impl Iterator<Item = &'a HunkLine>) -> Vec<u8> {
    lines.flat_map(|line| [line.text.as_slice(), b"\n"].concat()).collect()
}

fn check_counts(hunk: &Hunk, (added, removed): (usize, usize)) {
    let (old, new) = (hunk.old_lines().count(), hunk.new_lines().count());
    assert_eq!(old + added, new + removed, "lines come and go as counted");
}

#[cfg(test)]
mod tests {
    use super::patch;
    use crate::fuzz::Random;

    const PIECES: [&[u8]; 40] = [
        b"--- a/f\n",
        b"+++ b/f\n",
        b"--- a/f\n+++ b/f\n",
        b"--- /dev/null\n",
        b"+++ /dev/null\n",
        b"--- a/g\n+++ b/h\n",
        b"@@ -1,2 +1,2 @@\n",
        b"@@ -1 +1 @@\n",
        b"@@ -0,0 +1 @@\n",
        b"@@ -1 +0,0 @@\n",
        b"@@\n",
        b"@@ -9,9 +9,9 @@ fn x\n",
        b"@@ -",
        b" a\n",
        b" b\n",
        b"-a\n",
        b"+a\n",
        b"-b\n",
        b"+b\n",
        b"\n",
        b" \n",
        b"-\n",
        b"+\n",
        b"a\n",
        b"\r\n",
        b"\\ No newline at end of file\n",
        b"diff --git a/f b/f\n",
        b"diff --git a/f b/g\n",
        b"rename from f\n",
        b"rename to g\n",
        b"new file mode 100755\n",
        b"deleted file mode 100644\n",
        b"old mode 100644\nnew mode 100755\n",
        b"index 12..34 100644\n",
        b"GIT binary patch\n",
        b"```diff\n",
        b"*** Begin Patch\n",
        b"\"a\\tb\"",
        b"\xff",
        b"18446744073709551616",
    ];
    const WHOLE: [&[u8]; 4] = [b"--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n", b" a\n", b"-b\n", b"+c\n"];

    #[test]
    fn patches_hold_their_promises_on_random_input() {
        let mut random = Random::new(2);
        for _ in 0..4_000 {
            patch(&random.bytes_from(&PIECES, 200));
        }
        for _ in 0..1_000 {
            let mut hunk = WHOLE[0].to_vec();
            (0..random.below(12)).for_each(|_| hunk.extend_from_slice(random.choose::<&[u8]>(&WHOLE[1..])));
            patch(&hunk);
        }
    }
}
