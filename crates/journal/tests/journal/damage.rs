//! Damage in the logs that wait to enter the journal.

use std::path::PathBuf;

use garret_core::Storage;
use garret_depot::{ChangeKind, Depot, History};
use garret_testkit::mutations::write;

use crate::journal::desk::Desk;
use crate::journal::support::{context, options};

async fn depot(desk: &Desk) -> Depot {
    let opened = Depot::open(desk.home.path(), options(), context()).await;
    opened.expect("the home is fine")
}

fn log_of(desk: &Desk) -> PathBuf {
    let files = std::fs::read_dir(desk.home.path().join("journals")).expect("there are logs");
    let mut paths = files.map(|file| file.expect("it is there").path());
    let log = paths.find(|path| path.extension().is_some_and(|ending| ending == "log"));
    log.expect("there is a log")
}

/// A desk whose log holds changes that are not in the journal yet.
async fn waiting() -> Desk {
    let desk = Desk::new().await;
    for (path, content) in [("a", "1"), ("b", "2"), ("c", "3")] {
        desk.write(path, content).await;
    }
    desk
}

#[tokio::test]
async fn a_damaged_log_is_told_by_a_check_until_it_is_repaired_and_costs_no_file() {
    let whole = std::fs::read(log_of(&waiting().await)).unwrap().len();
    for position in [0, 2, 4, 30, whole / 3, whole / 2] {
        let mut desk = waiting().await;
        let log = log_of(&desk);
        let mut bytes = std::fs::read(&log).unwrap();
        bytes[position] ^= 0x10;
        std::fs::write(&log, bytes).unwrap();
        let depot = depot(&desk).await;
        let before = depot.check().await.unwrap();
        assert_eq!(before.len(), 1, "{position}: {before:?}");
        assert!(
            before[0].what.contains("log") && before[0].workspace.is_some(),
            "{before:?}"
        );
        desk.reopen().await;
        desk.write("d", "4").await;
        let kinds = desk.kinds().await;
        assert!(kinds.contains(&ChangeKind::Change), "{kinds:?}");
        assert_eq!(
            depot.check().await.unwrap(),
            before,
            "{position}: it is told after the log was used"
        );
        let repaired = depot.repair().await.unwrap();
        assert_eq!(repaired.remaining, [], "{position}");
        assert_eq!(repaired.repaired.len(), 1, "{position}: {:?}", repaired.repaired);
        assert_eq!(depot.check().await.unwrap(), []);
        for (path, content) in [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")] {
            assert_eq!(desk.on_disk(path).as_deref(), Some(content));
        }
        desk.room.snapshot("all", Default::default()).await.unwrap();
        let (known, there) = desk.trees().await;
        assert_eq!(known, there, "{position}: what the log lost is met again");
    }
}

#[tokio::test]
async fn a_log_that_was_cut_off_is_not_damaged() {
    let whole = std::fs::read(log_of(&waiting().await)).unwrap().len();
    for length in [whole - 1, whole / 2, 3, 0] {
        let desk = waiting().await;
        let log = log_of(&desk);
        let bytes = std::fs::read(&log).unwrap();
        std::fs::write(&log, &bytes[..length.min(bytes.len())]).unwrap();
        assert_eq!(depot(&desk).await.check().await.unwrap(), [], "after {length} bytes");
        let again = desk.again().await;
        again.apply(write("d", "4").into()).await.unwrap();
    }
}
