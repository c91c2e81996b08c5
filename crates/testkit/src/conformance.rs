//! The contract as tests: one function for each behaviour, over any storage.
//!
//! Every function takes an empty storage and panics where a promise is broken. [`conformance_tests!`](crate::conformance_tests) makes
//! each of them a `#[test]`, so that a failure has a name. They are written from `garret_core::memory`, the reference; what a storage
//! may choose (modes, links, a synchronous walk) is asked of [`StorageInfo`](garret_core::StorageInfo) first.

pub mod appends;
pub mod batches;
pub mod concurrency;
pub mod copies;
pub mod directories;
pub mod errors;
pub mod links;
pub mod lists;
pub mod paths;
pub mod preconditions;
pub mod reads;
pub mod removes;
pub mod renames;
pub mod walks;
pub mod writes;

use std::future::Future;

use crate::fixture::block_on;
use crate::{Fixture, Probe};

/// Runs one behaviour on a fresh storage.
pub fn check<Made, Checked>(make: impl FnOnce() -> Made, behaviour: impl FnOnce(Probe) -> Checked)
where
    Made: Future<Output = Fixture>,
    Checked: Future<Output = ()>,
{
    block_on(async {
        let fixture = make().await;
        behaviour(fixture.probe()).await;
    });
}

/// Hands every behaviour of the suite, grouped by module, to the macro `$each` with `$extra` in front.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_behaviour {
    ([$($each:tt)*], $extra:tt) => {
        $($each)*! { $extra
            appends {
                an_append_adds_at_the_end
                an_append_keeps_the_bytes_before
                an_empty_append_changes_nothing
                an_append_with_create_makes_the_file
                an_append_needs_its_file
                only_files_can_be_appended_to
                appends_of_one_batch_arrive_in_order
            }
            batches {
                an_empty_batch_does_nothing
                steps_see_the_ones_before
                a_failure_takes_back_each_kind
                a_failure_in_the_middle_takes_back_everything
                a_failure_anywhere_takes_back_everything
                a_tree_taken_down_by_steps_is_taken_back
                a_path_changed_many_times_is_taken_back
                a_large_batch_is_taken_back
                a_batch_can_swap
                a_batch_can_change_a_kind
                the_last_version_of_a_batch_is_the_file_s
            }
            concurrency {
                a_counter_by_conditional_writes_loses_nothing
                appends_at_once_all_arrive
                appends_and_conditional_writes_lose_nothing
                one_creator_wins
                one_writer_with_a_version_wins
                one_mover_wins
                one_remover_wins
                directories_made_at_once_are_there
                a_reader_never_sees_a_mix
                batches_at_once_do_not_mix
                moves_at_once_lose_nothing
                a_returned_write_is_seen_by_all
            }
            copies {
                a_copy_lives_on_its_own
                a_copy_alone_tells_the_version_of_the_file
                a_copy_replaces_nothing_by_default
                a_copy_replaces_a_file_when_told
                a_copy_never_replaces_a_directory
                a_copy_onto_itself_is_a_no_op
                a_copy_makes_directories_only_when_told
                only_files_can_be_copied
            }
            directories {
                the_root_is_a_directory
                a_write_makes_real_directories
                a_directory_stays_when_its_last_file_goes
                make_dir_makes_one_directory
                make_dir_refuses_what_exists
                make_dir_with_parents_is_idempotent
                make_dir_with_parents_refuses_a_file
                make_dir_needs_its_parent
                a_file_cannot_take_a_directory_s_name
                nothing_lives_below_a_file
            }
            errors {
                an_error_names_the_caller_s_path
                a_name_cannot_forge_a_message
                a_storage_says_what_it_is
            }
            links {
                a_link_is_described_as_itself
                a_link_points_where_one_can
                a_link_replaces_nothing
                a_link_to_a_file_stands_for_it
                a_link_to_a_directory_stands_for_it
                a_list_through_a_link_gives_real_paths
                a_list_never_follows_a_link
                a_relative_link_counts_from_where_it_stands
                dots_after_a_link_go_up_from_its_target
                a_chain_of_links_is_followed
                a_write_through_a_link_to_nothing_makes_its_target
                a_circle_of_links_is_invalid
                a_link_that_leads_outside_is_never_followed
                a_chain_that_ends_outside_is_never_followed
                a_link_that_leads_outside_can_be_handled
                never_follows_no_link_at_all
                never_still_handles_the_link_itself
                removing_a_link_leaves_its_target
                moving_a_link_moves_the_link
                a_move_or_copy_onto_a_link_replaces_the_link
                a_moved_link_replaces_files_only
                a_move_sees_through_links
                make_dir_sees_through_links
                preconditions_look_through_links
                resolve_gives_the_real_path
            }
            lists {
                a_shallow_list_gives_one_directory
                a_deep_list_is_in_byte_order
                a_version_that_a_list_tells_is_the_file_s
                pages_of_every_size_give_the_same_list
                a_full_last_page_has_no_more
                a_cursor_need_not_exist
                a_deep_cursor_resumes_a_shallow_list
                a_cursor_elsewhere_is_before_or_after
                a_raw_cursor_has_its_place
                a_list_survives_changes_between_pages
                only_directories_can_be_listed
                five_thousand_entries_come_in_pages
            }
            paths {
                spellings_name_one_file
                odd_names_are_ordinary
                names_that_differ_by_case_are_two
                the_longest_name_works
                a_long_path_works
                deep_nesting_works
            }
            preconditions {
                absent_writes_a_new_file
                absent_refuses_an_existing_file
                the_current_version_passes
                a_version_serves_whoever_gave_it
                a_stale_version_is_a_conflict
                a_version_of_a_removed_file_is_a_conflict
                a_made_up_version_is_a_conflict
                a_version_outlives_changes_elsewhere
                append_obeys_preconditions
                remove_obeys_preconditions
                read_obeys_preconditions
                a_directory_is_no_conflict
                a_precondition_sees_earlier_steps
            }
            reads {
                a_range_gives_its_bytes
                a_range_past_the_end_is_cut
                an_empty_range_gives_nothing
                an_empty_file_has_empty_ranges
                a_read_over_the_limit_is_too_large
                the_limit_counts_what_is_read
                only_files_can_be_read
                only_entries_can_be_described
                a_read_carries_the_version_of_its_bytes
            }
            removes {
                a_removed_file_is_gone
                an_empty_directory_is_removed
                a_full_directory_needs_recursive
                a_recursive_removal_takes_only_what_lies_below
                a_recursive_removal_of_a_file_removes_it
                nothing_cannot_be_removed
                the_root_is_never_removed
                a_removed_name_is_free
            }
            renames {
                a_file_moves
                a_move_alone_tells_the_version_of_the_file
                a_directory_moves_with_everything
                a_directory_of_1500_files_moves
                a_move_crosses_directories
                a_move_onto_itself_is_a_no_op
                a_move_into_itself_is_invalid
                a_move_to_a_name_that_begins_the_same_works
                a_move_replaces_nothing_by_default
                a_move_replaces_a_file_when_told
                a_move_replaces_an_empty_directory_only
                a_move_never_changes_the_kind
                a_move_onto_a_directory_above_is_refused
                a_move_makes_directories_only_when_told
                a_move_needs_a_source_and_a_place
                the_root_does_not_move
            }
            walks {
                a_walk_sees_what_a_list_sees
                a_walk_opens_only_what_it_names
                a_walk_follows_no_link
                a_walk_begins_at_a_directory
            }
            writes {
                a_write_says_what_it_left
                an_overwrite_replaces_everything
                an_empty_file_is_a_file
                bytes_are_kept_exactly
                a_source_is_stored_as_it_is_read
                a_source_that_fails_changes_nothing
                a_write_without_parents_needs_its_directory
                an_overwrite_keeps_the_mode
                a_write_sets_the_mode_it_is_given
                a_mode_can_be_set
                a_mode_needs_an_entry
                every_content_has_its_own_version
                every_append_changes_the_version
                stat_and_list_agree
            }
        }
    };
}

/// Makes one `#[test]` of each behaviour, for the storage that `$make` gives.
///
/// `$make` is a function or closure without arguments that gives a future of an empty [`Fixture`].
#[macro_export]
macro_rules! conformance_tests {
    ($make:expr) => {
        $crate::for_each_behaviour!([$crate::conformance_tests_of], ($make));
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests_of {
    ($make:tt $($module:ident { $($behaviour:ident)* })*) => {
        $($crate::conformance_module! { $make $module { $($behaviour)* } })*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_module {
    (($make:expr) $module:ident { $($behaviour:ident)* }) => {
        mod $module {
            #[allow(unused_imports, reason = "the maker may be a path or a closure")]
            use super::*;

            $(
                #[test]
                fn $behaviour() {
                    $crate::conformance::check($make, $crate::conformance::$module::$behaviour);
                }
            )*
        }
    };
}

/// The names of all behaviours as `module::behaviour`.
pub fn names() -> Vec<String> {
    macro_rules! listed {
        (() $($module:ident { $($behaviour:ident)* })*) => {
            vec![$($(concat!(stringify!($module), "::", stringify!($behaviour)).to_owned()),*),*]
        };
    }
    crate::for_each_behaviour!([listed], ())
}

#[cfg(test)]
mod tests {
    /// A behaviour that no macro names would be a test that never runs.
    #[test]
    fn every_behaviour_is_listed() {
        let sources = [
            ("appends", include_str!("conformance/appends.rs")),
            ("batches", include_str!("conformance/batches.rs")),
            ("concurrency", include_str!("conformance/concurrency.rs")),
            ("copies", include_str!("conformance/copies.rs")),
            ("directories", include_str!("conformance/directories.rs")),
            ("errors", include_str!("conformance/errors.rs")),
            ("links", include_str!("conformance/links.rs")),
            ("lists", include_str!("conformance/lists.rs")),
            ("paths", include_str!("conformance/paths.rs")),
            ("preconditions", include_str!("conformance/preconditions.rs")),
            ("reads", include_str!("conformance/reads.rs")),
            ("removes", include_str!("conformance/removes.rs")),
            ("renames", include_str!("conformance/renames.rs")),
            ("walks", include_str!("conformance/walks.rs")),
            ("writes", include_str!("conformance/writes.rs")),
        ];
        let mut written = Vec::new();
        for (module, source) in sources {
            let found = source.lines().filter_map(|line| line.strip_prefix("pub async fn "));
            written.extend(found.map(|rest| format!("{module}::{}", rest.split('(').next().unwrap_or_default())));
        }
        let mut listed = super::names();
        written.sort();
        listed.sort();
        assert_eq!(listed, written);
    }
}
