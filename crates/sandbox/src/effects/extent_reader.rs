//! Reads a file by its extents: a hole is returned as zeros, and is not read.

use std::io::Read;
use std::os::fd::OwnedFd;

use rustix::io::{Errno, pread};

use super::reading_deadline::ReadingDeadline;
use super::tree_copy::next_data;

/// The largest file that is read without asking for its holes, which would cost more than reading them.
const SHORT_BYTES: u64 = 64 * 1024;

/// A reader of a file that skips holes, and fails once the time for reading is over.
pub(super) struct ExtentReader {
    file: OwnedFd,
    size: u64,
    position: u64,
    /// The extent of data that the position is in or before; an extent at the end of the file if only a hole is left.
    extent: Option<(u64, u64)>,
    deadline: ReadingDeadline,
}

impl ExtentReader {
    pub(super) fn new(file: OwnedFd, size: u64, deadline: ReadingDeadline) -> Self {
        let extent = (size <= SHORT_BYTES).then_some((0, u64::MAX));
        Self {
            file,
            size,
            position: 0,
            extent,
            deadline,
        }
    }

    fn current_extent(&mut self) -> Result<(u64, u64), Errno> {
        match self.extent {
            Some((start, end)) if self.position < end => Ok((start, end)),
            _ => {
                let next = next_data(&self.file, self.position, self.size)?;
                // Bytes behind the size that was seen were written later: they are read, so that the content is found
                // to be too long.
                let rest = if self.position < self.size {
                    self.size
                } else {
                    self.position
                };
                let extent = next.unwrap_or((rest, u64::MAX));
                self.extent = Some(extent);
                Ok(extent)
            }
        }
    }
}

impl Read for ExtentReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.deadline.check_time().map_err(std::io::Error::other)?;
        let (start, end) = self.current_extent()?;
        let is_hole = self.position < start;
        let rest = if is_hole { start } else { end } - self.position;
        let wanted = buffer.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        let part = &mut buffer[..wanted];
        let count = if is_hole {
            part.fill(0);
            wanted
        } else {
            pread(&self.file, part, self.position)?
        };
        self.position += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests make files with holes")]
mod tests {
    use std::fs::File;
    use std::io::{Seek, SeekFrom, Write};
    use std::time::Duration;

    use garret_core::EffectLimits;
    use rustix::fs::{FallocateFlags, fallocate};

    use super::*;

    const MEBIBYTE: u64 = 1 << 20;

    fn reader(file: &File, limits: EffectLimits) -> ExtentReader {
        let size = file.metadata().unwrap().len();
        let file = file.try_clone().unwrap().into();
        ExtentReader::new(file, size, ReadingDeadline::new(limits))
    }

    fn read(file: &File) -> Vec<u8> {
        let mut bytes = Vec::new();
        reader(file, EffectLimits::default()).read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn whole(file: &mut File) -> Vec<u8> {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn written(parts: &[(u64, usize)], size: u64) -> File {
        let mut file = tempfile::tempfile().unwrap();
        for (place, length) in parts {
            file.seek(SeekFrom::Start(*place)).unwrap();
            file.write_all(&vec![7; *length]).unwrap();
        }
        file.set_len(size).unwrap();
        file
    }

    #[test]
    fn a_file_with_holes_is_read_as_it_is() {
        let mut punched = written(&[(0, 3 << 20)], 3 * MEBIBYTE);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&punched, flags, MEBIBYTE, MEBIBYTE).unwrap();
        let mut allocated = written(&[(5, 5)], 10);
        fallocate(&allocated, FallocateFlags::empty(), 0, 2 * MEBIBYTE).unwrap();
        let mut files = [
            written(&[], 0),
            written(&[(0, 10)], 10),
            written(&[], 2 * MEBIBYTE),
            written(&[(0, 100), (MEBIBYTE, 100)], 2 * MEBIBYTE + 1),
            written(&[(MEBIBYTE + 17, 9)], MEBIBYTE + 26),
        ];
        for file in files.iter_mut().chain([&mut punched, &mut allocated]) {
            assert!(read(file) == whole(file), "{:?}", file.metadata().unwrap());
        }
    }

    #[test]
    fn a_hole_is_not_read() {
        let file = written(&[], 4 << 40);
        let mut reader = reader(&file, EffectLimits::default());
        let mut buffer = vec![1; 1 << 20];
        assert_eq!(reader.read(&mut buffer).unwrap(), buffer.len());
        assert!(buffer.iter().all(|byte| *byte == 0));
        assert_eq!(
            reader.extent,
            Some((4 << 40, u64::MAX)),
            "the rest is known to be one hole"
        );
    }

    #[test]
    fn what_comes_after_the_look_is_read_and_so_found_to_be_too_much() {
        let file = written(&[], MEBIBYTE);
        let mut reader = reader(&file, EffectLimits::default());
        let mut bytes = vec![0; MEBIBYTE as usize];
        reader.read_exact(&mut bytes).unwrap();
        file.set_len(MEBIBYTE + 1).unwrap();
        assert_eq!(reader.read(&mut bytes).unwrap(), 1);
    }

    #[test]
    fn a_reading_whose_time_is_over_ends_within_the_file() {
        let limits = EffectLimits {
            time: Some(Duration::ZERO),
            ..EffectLimits::default()
        };
        let file = written(&[], MEBIBYTE);
        let failure = reader(&file, limits).read(&mut [0; 10]).unwrap_err();
        let error = failure.downcast::<garret_core::Error>().unwrap();
        assert_eq!(error.refused_by(), Some("limits.timeout_s"));
    }
}
