//! Numbers from a seed, the same on every machine.

/// A small generator (splitmix64): good enough to choose test inputs, and repeatable.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator that starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next_number() % end
    }

    /// One of `choices`, which are not empty.
    pub fn choose<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    /// Up to `longest` bytes, put together from `pieces` and now and then a random byte: inputs that come further than noise does.
    pub fn bytes_from(&mut self, pieces: &[&[u8]], longest: usize) -> Vec<u8> {
        let wanted = self.below(longest as u64 + 1) as usize;
        let mut bytes = Vec::with_capacity(wanted);
        while bytes.len() < wanted {
            if self.below(8) == 0 {
                bytes.push(self.next_number() as u8);
            } else {
                bytes.extend_from_slice(self.choose::<&[u8]>(pieces));
            }
        }
        bytes.truncate(wanted);
        bytes
    }
}
