//! Content-defined chunking: large content is cut at positions that its own bytes determine, so that an insertion moves
//! only the cuts near it.
//!
//! A rolling sum over the last 64 bytes decides; it starts anew at each cut. A part therefore depends on nothing before
//! it but how far into the file it begins, and appending to a file cuts only its last part again. The beginning of a
//! file is cut finely, since an edit stores again the part that it is in; bytes far inside are cut coarsely, so that a
//! very large file does not become too many parts.

use std::ops::Range;
use std::sync::LazyLock;

/// The minimum length of every part but the last.
pub(crate) const SHORTEST: usize = 64 * 1024;
/// The maximum length of a part.
pub(crate) const LONGEST: usize = 1024 * 1024;
/// A part that begins before this is cut finely: once in 32 KiB, after the shortest length.
const FINE: u64 = 16 * 1024 * 1024;
const FINE_MASK: u64 = high_bits(15);
/// A part that begins later is cut once in 128 KiB.
const COARSE_MASK: u64 = high_bits(17);

const fn high_bits(bits: u32) -> u64 {
    ((1 << bits) - 1) << (64 - bits)
}

/// A random-looking number for each byte value. It must never change: the cuts, and so the addresses of stored files,
/// depend on it.
static GEAR: LazyLock<[u64; 256]> = LazyLock::new(|| {
    std::array::from_fn(|byte| {
        let hash = blake3::hash(&[byte as u8]);
        u64::from_le_bytes(hash.as_bytes()[..8].try_into().expect("a hash has 32 bytes"))
    })
});

/// Returns the ranges of all parts of `content`, in order. `offset` is the position of `content` in its file.
pub(crate) fn cut_into_parts(content: &[u8], offset: u64) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = 0;
    while start < content.len() {
        let end = start + first_part_len(&content[start..], offset + start as u64);
        parts.push(start..end);
        start = end;
    }
    parts
}

/// Returns the length of the first part of `content`, which begins at `offset` of the file. If the file has more bytes
/// than `content`, then `content` must have at least [`LONGEST`].
pub(super) fn first_part_len(content: &[u8], offset: u64) -> usize {
    if content.len() <= SHORTEST {
        return content.len();
    }
    let last = content.len().min(LONGEST);
    let mask = if offset < FINE { FINE_MASK } else { COARSE_MASK };
    let mut sum: u64 = 0;
    // The sum covers 64 bytes, so it need not start earlier than 64 bytes before the first possible cut.
    for (index, byte) in content[..last].iter().enumerate().skip(SHORTEST - 64) {
        sum = (sum << 1).wrapping_add(GEAR[usize::from(*byte)]);
        if index >= SHORTEST && sum & mask == 0 {
            return index + 1;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().update(b"noise").finalize_xof().fill(&mut bytes);
        bytes
    }

    #[test]
    fn parts_cover_everything_within_their_bounds() {
        let content = noise(5_000_000);
        let parts = cut_into_parts(&content, 0);
        assert_eq!(parts.iter().map(Range::len).sum::<usize>(), content.len());
        assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
        let (_, inner) = parts.split_last().expect("there are parts");
        assert!(inner.iter().all(|part| (SHORTEST..=LONGEST).contains(&part.len())));
        assert!((40..70).contains(&parts.len()), "{} parts of 5 MB", parts.len());
    }

    #[test]
    fn what_lies_far_inside_a_file_is_cut_coarsely() {
        let content = noise(5_000_000);
        let (early, late) = (cut_into_parts(&content, 0).len(), cut_into_parts(&content, FINE).len());
        assert!(
            (18..36).contains(&late) && late < early,
            "{late} and {early} parts of 5 MB"
        );
    }

    #[test]
    fn an_edit_in_the_middle_keeps_the_parts_elsewhere() {
        let before = noise(3_000_000);
        let mut after = before.clone();
        after.splice(1_500_000..1_500_000, *b"inserted");
        let kept = |content: &[u8]| -> std::collections::BTreeSet<[u8; 32]> {
            let parts = cut_into_parts(content, 0);
            parts
                .into_iter()
                .map(|part| *blake3::hash(&content[part]).as_bytes())
                .collect()
        };
        let (before, after) = (kept(&before), kept(&after));
        assert!(
            after.difference(&before).count() <= 2,
            "an edit changes the part it is in, and perhaps the next"
        );
    }

    #[test]
    fn cutting_the_last_part_again_gives_the_same_cuts() {
        let content = noise(2_000_000);
        let offset = FINE - 1_000_000;
        let whole = cut_into_parts(&content, offset);
        let first = cut_into_parts(&content[..1_200_000], offset);
        let start = first.last().expect("there are parts").start;
        let again = cut_into_parts(&content[start..], offset + start as u64)
            .into_iter()
            .map(|part| part.start + start..part.end + start);
        let joined: Vec<_> = first[..first.len() - 1].iter().cloned().chain(again).collect();
        assert_eq!(joined, whole);
    }

    #[test]
    fn content_without_variety_is_cut_at_the_longest() {
        let lengths: Vec<_> = cut_into_parts(&vec![7; 2 * LONGEST + 5], 0)
            .iter()
            .map(Range::len)
            .collect();
        assert_eq!(lengths, [LONGEST, LONGEST, 5]);
    }
}
