//! The common prefix and the common suffix of two contents.
//!
//! An edit of a large file leaves nearly all of it alone, so the equal part is compared in long strides.

const STRIDE: usize = 256;

/// Returns the number of equal bytes at the beginning of both contents.
pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    // Slices of bytes are compared as a block of memory, many times faster than the loop over single bytes below.
    let strides = a.chunks_exact(STRIDE).zip(b.chunks_exact(STRIDE));
    let passed = STRIDE * strides.take_while(|(a, b)| a == b).count();
    // The first stride that differs holds the end of the prefix.
    let rest = a[passed..].iter().zip(&b[passed..]);
    passed + rest.take_while(|(a, b)| a == b).count()
}

/// Returns the number of equal bytes at the end of both contents.
pub(super) fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    let strides = a.rchunks_exact(STRIDE).zip(b.rchunks_exact(STRIDE));
    let passed = STRIDE * strides.take_while(|(a, b)| a == b).count();
    let rest = a[..a.len() - passed]
        .iter()
        .rev()
        .zip(b[..b.len() - passed].iter().rev());
    passed + rest.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_common_is_found_to_the_byte() {
        let a: Vec<u8> = (0..3 * STRIDE + 77).map(|number| (number % 251) as u8).collect();
        for at in [0, 1, STRIDE - 1, STRIDE, STRIDE + 1, 3 * STRIDE + 5, a.len() - 1] {
            let mut b = a.clone();
            b[at] ^= 1;
            assert_eq!((common_prefix(&a, &b), common_suffix(&a, &b)), (at, a.len() - 1 - at));
        }
        for end in [0, 5, STRIDE, 2 * STRIDE + 9, a.len()] {
            assert_eq!(
                (common_prefix(&a, &a[..end]), common_suffix(&a, &a[a.len() - end..])),
                (end, end)
            );
        }
    }
}
