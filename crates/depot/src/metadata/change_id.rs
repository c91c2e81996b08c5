//! Ids that encode the workspace and the number of a change, so that finding a change by its id needs no index: for a
//! small change, an index would write one more page than the change itself.
//!
//! The id stays a UUID of version 7, ordered by time. The bits that are random in other UUIDs hold the workspace and
//! the number, which are unique in the depot. Other ids, of changes that were imported or got their id before their
//! number, are kept in an index.

/// The position of the part that is random in other UUIDs.
const PLACE: usize = 19;
const LENGTH: usize = 36;
/// The variant bits of a UUID, in front of that part.
const VARIANT: u64 = 0b10 << 62;
const SEQ_BITS: u32 = 38;
const WORKSPACE_BITS: u32 = 24;

/// Returns `id` with the workspace and the number encoded in it; `None` if `id` is no UUID of version 7 or the numbers
/// are too large.
pub(crate) fn encode_change_id(id: &str, workspace: i64, seq: i64) -> Option<String> {
    let is_fit = id.len() == LENGTH && id.is_ascii() && id.as_bytes()[14] == b'7' && id.as_bytes()[PLACE - 1] == b'-';
    let workspace = u64::try_from(workspace)
        .ok()
        .filter(|number| number >> WORKSPACE_BITS == 0)?;
    let seq = u64::try_from(seq).ok().filter(|number| number >> SEQ_BITS == 0)?;
    let place = VARIANT | workspace << SEQ_BITS | seq;
    is_fit.then(|| format!("{}{:04x}-{:012x}", &id[..PLACE], place >> 48, place & 0xffff_ffff_ffff))
}

/// Returns the workspace and the number that `id` encodes. For any other UUID these numbers mean nothing, so the caller
/// must compare the id of the change that it finds.
pub(super) fn decode_change_id(id: &str) -> Option<(i64, i64)> {
    if id.len() != LENGTH || !id.is_ascii() {
        return None;
    }
    let digits = [&id[PLACE..PLACE + 4], &id[PLACE + 5..]].concat();
    let place = u64::from_str_radix(&digits, 16).ok()?;
    let workspace = place << 2 >> (SEQ_BITS + 2);
    let seq = place & ((1 << SEQ_BITS) - 1);
    Some((workspace as i64, seq as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0192f5a0-7d3c-7abc-8def-0123456789ab";

    #[test]
    fn an_id_tells_where_its_change_is() {
        for place in [(1, 1), (77, 123_456), ((1 << 24) - 1, (1 << 38) - 1)] {
            let told = encode_change_id(ID, place.0, place.1).unwrap();
            assert_eq!((told.len(), &told[..18]), (36, &ID[..18]));
            assert!(matches!(told.as_bytes()[PLACE], b'8'..=b'b'), "{told} is a UUID");
            assert_eq!(decode_change_id(&told), Some(place));
        }
    }

    #[test]
    fn an_id_of_another_form_or_a_place_without_room_is_left_alone() {
        assert_eq!(encode_change_id("id-1", 1, 1), None);
        assert_eq!(encode_change_id(ID, 1 << 24, 1), None);
        assert_eq!(encode_change_id(ID, 1, 1 << 38), None);
        assert_eq!(decode_change_id("id-1"), None);
        assert_eq!(decode_change_id("0192f5a0-7d3c-7abc-8def-0123456789xy"), None);
    }
}
