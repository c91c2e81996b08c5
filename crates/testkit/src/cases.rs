//! The published file operations, each as a function over a workspace on any storage.
//!
//! `testdata/vectors/file-operations.json` names operations that public systems get wrong and what must hold. Each has one function
//! here; [`case_tests!`](crate::case_tests) makes each a `#[test]`, and a test of this crate compares the two lists.

mod room;

pub mod moves;
pub mod patches;
pub mod searches;
pub mod texts;
pub mod writes;

use std::future::Future;

use crate::Fixture;
use crate::fixture::block_on;

pub use room::Room;

/// Runs one case on a fresh storage.
pub fn check<Made, Checked>(make: impl FnOnce() -> Made, case: impl FnOnce(Room) -> Checked)
where
    Made: Future<Output = Fixture>,
    Checked: Future<Output = ()>,
{
    block_on(async {
        let fixture = make().await;
        case(Room::new(&fixture)).await;
    });
}

/// Hands every case to the macro `$each` with `$extra` in front.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_case {
    ([$($each:tt)*], $extra:tt) => {
        $($each)*! { $extra
            moves a_file_onto_itself = "move a file onto itself";
            moves a_directory_into_its_own_subtree = "move a directory into its own subtree";
            moves a_directory_of_1500_files = "move or copy a directory of 1,500 files";
            moves the_root_is_removed = "remove the root";
            writes a_write_to_a_directory = "write to a path that is a directory";
            writes a_write_below_a_file = "write below a path that is a file";
            writes an_append_to_bytes = "append text to a file of bytes ff fe";
            writes a_hundred_appends_at_once = "100 concurrent one-byte appends to one file";
            writes two_writers_with_one_version = "two writers with the same if_version";
            writes damaged_content = "stored content is lost or damaged behind our back";
            writes a_list_of_5000_entries = "list of 5,000 entries";
            writes a_name_like_a_command = "a name that looks like a command: $(touch x), a;b, -rf";
            texts an_edit_with_dollar_signs = "edit with $& or $1 in the replacement";
            texts an_edit_of_a_crlf_file = "edit a CRLF file with an LF needle";
            patches a_blank_context_line_without_its_space = "patch whose blank context line lost its leading space";
            patches a_wrong_context = "patch with a wrong context";
            patches a_patch_of_many_files = "multi-file patch with create, delete and rename";
            searches a_search_right_after_a_write = "search right after a write";
            searches globs_have_one_meaning = "glob [!a].txt, {*.ts,*.js}, **/x, *.{rs,md}, src/*.rs";
            searches grep_names_what_it_skips = "grep skips binary or oversized files";
        }
    };
}

/// Makes one `#[test]` of each case, for the storage that `$make` gives.
///
/// `$make` is a function or closure without arguments that gives a future of an empty [`Fixture`].
#[macro_export]
macro_rules! case_tests {
    ($make:expr) => {
        $crate::for_each_case!([$crate::case_tests_of], ($make));
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! case_tests_of {
    ($make:tt $($module:ident $case:ident = $text:literal;)*) => {
        $($crate::case_test! { $make $module $case })*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! case_test {
    (($make:expr) $module:ident $case:ident) => {
        #[test]
        fn $case() {
            $crate::cases::check($make, $crate::cases::$module::$case);
        }
    };
}

/// The texts of all cases that have a function.
pub fn texts() -> Vec<&'static str> {
    macro_rules! listed {
        (() $($module:ident $case:ident = $text:literal;)*) => {
            vec![$($text),*]
        };
    }
    crate::for_each_case!([listed], ())
}
