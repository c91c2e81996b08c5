//! Which writes of the log are held back: whole pages of a transaction that is being committed, one behind the other.

use super::Commit;

/// Bytes before each page: its number, then the size of the database where it is the last of its transaction, then sums.
const HEADER: usize = 24;
/// Where that size is.
const SIZE: std::ops::Range<usize> = 4..8;
/// As much is written at once. SQLite's files take no more than twice that in one call.
const FULL: usize = 64 * 1024;

/// What is held back.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The commit that it is of.
    commit: Option<Commit>,
    bytes: Vec<u8>,
    start: i64,
    awaited: Awaited,
}

/// What continues that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Awaited {
    #[default]
    Header,
    Page,
    /// The page that completes the transaction.
    LastPage,
}

/// What becomes of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is held.
    Held,
    /// It is held, and everything is to be written now.
    Complete,
    /// It is not held: it is to be written by itself, after what is.
    Apart,
}

impl Held {
    /// What is held of `commit`: of another, nothing is any more.
    pub(super) fn of(&mut self, commit: Option<Commit>) -> &mut Self {
        if self.commit != commit {
            self.clear();
            self.commit = commit;
        }
        self
    }

    /// Holds a write, where it belongs to what is held.
    pub(super) fn take(&mut self, bytes: &[u8], offset: i64) -> Taken {
        if self.commit.is_none() {
            return Taken::Apart;
        }
        let continues = offset == self.start + self.bytes.len() as i64;
        match self.awaited {
            Awaited::Header if bytes.len() == HEADER && (continues || self.bytes.is_empty()) => {
                self.take_header(bytes, offset)
            }
            Awaited::Header => Taken::Apart,
            Awaited::Page | Awaited::LastPage if !continues => Taken::Apart,
            Awaited::Page | Awaited::LastPage => self.take_page(bytes),
        }
    }

    /// The one of a last page alone is not held: SQLite also writes it again over the one that is there, and then no page after it.
    fn take_header(&mut self, bytes: &[u8], offset: i64) -> Taken {
        let is_last = bytes[SIZE] != [0; 4];
        if self.bytes.is_empty() {
            self.start = offset;
        }
        if is_last && self.bytes.is_empty() {
            return Taken::Apart;
        }
        self.bytes.extend_from_slice(bytes);
        self.awaited = if is_last { Awaited::LastPage } else { Awaited::Page };
        Taken::Held
    }

    fn take_page(&mut self, bytes: &[u8]) -> Taken {
        let is_last = self.awaited == Awaited::LastPage;
        self.bytes.extend_from_slice(bytes);
        self.awaited = Awaited::Header;
        match is_last || self.bytes.len() >= FULL {
            true => Taken::Complete,
            false => Taken::Held,
        }
    }

    /// What is held, and where it belongs, if anything is.
    pub(super) fn run(&self) -> Option<(&[u8], i64)> {
        (!self.bytes.is_empty()).then_some((&self.bytes, self.start))
    }

    /// Holds nothing any more.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.awaited = Awaited::Header;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: i64 = 24 + 4096;
    const PAGE: [u8; 4096] = [7; 4096];

    fn header(size: u32) -> [u8; HEADER] {
        let mut header = [1; HEADER];
        header[SIZE].copy_from_slice(&size.to_be_bytes());
        header
    }

    fn frame(held: &mut Held, offset: i64, size: u32) -> [Taken; 2] {
        [held.take(&header(size), offset), held.take(&PAGE, offset + 24)]
    }

    fn committing() -> Held {
        Held {
            commit: Some(Commit(1)),
            ..Held::default()
        }
    }

    #[test]
    fn the_pages_of_a_transaction_are_held_until_its_last() {
        let mut held = committing();
        assert_eq!(frame(&mut held, 32, 0), [Taken::Held; 2]);
        assert_eq!(frame(&mut held, 32 + FRAME, 0), [Taken::Held; 2]);
        assert_eq!(frame(&mut held, 32 + 2 * FRAME, 9), [Taken::Held, Taken::Complete]);
        let (bytes, offset) = held.run().unwrap();
        assert_eq!((bytes.len() as i64, offset), (3 * FRAME, 32));
        assert_eq!(&bytes[..24], header(0));
        held.clear();
        assert_eq!(held.run(), None);
    }

    #[test]
    fn many_pages_are_written_in_between() {
        let mut held = committing();
        let pages = (0..).position(|number| frame(&mut held, number * FRAME, 0)[1] == Taken::Complete);
        assert_eq!(pages, Some(15), "16 pages");
        held.clear();
        assert_eq!(frame(&mut held, 16 * FRAME, 0), [Taken::Held; 2]);
    }

    #[test]
    fn what_is_held_is_of_one_commit_and_nothing_is_without_one() {
        let mut held = committing();
        assert_eq!(frame(&mut held, 32, 0), [Taken::Held; 2]);
        assert_eq!(
            held.of(Some(Commit(1))).run().map(|(bytes, _)| bytes.len() as i64),
            Some(FRAME)
        );
        assert_eq!(held.of(Some(Commit(2))).run(), None);
        assert_eq!(frame(&mut held, 32, 0), [Taken::Held; 2]);
        assert_eq!(held.of(None).run(), None);
        assert_eq!(frame(&mut held, 32, 0), [Taken::Apart; 2]);
    }

    #[test]
    fn what_is_not_a_page_behind_the_others_is_written_by_itself() {
        let mut held = committing();
        assert_eq!(held.take(&[0; 32], 0), Taken::Apart, "the head of the log");
        assert_eq!(frame(&mut held, 32, 9), [Taken::Apart; 2], "a transaction of one page");
        assert_eq!(frame(&mut held, 32 + FRAME, 0), [Taken::Held; 2]);
        assert_eq!(
            held.take(&PAGE, 32 + 24),
            Taken::Apart,
            "a page that is in the log already"
        );
        assert_eq!(held.take(&header(0), 32), Taken::Apart, "a header of one");
        assert_eq!(held.take(&header(0), 32 + 2 * FRAME), Taken::Held);
        assert_eq!(
            held.take(&PAGE, 32 + FRAME),
            Taken::Apart,
            "another page than the one of the header"
        );
    }
}
