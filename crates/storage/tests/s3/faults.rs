//! One request meets a fault, each in turn: the operation rides it out, and what is there afterwards is what it says. Then all of them do:
//! the operation fails with a clear error, and nothing is half done.

use garret_core::{EntryKind, ErrorKind, Mutation, Precondition};
use garret_testkit::Probe;
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{
    append, append_or_create, copy, link, make_dirs, remove, remove_tree, rename, set_mode, write, write_if,
};
use garret_testkit::s3::{Fault, Proxy, Rule, Server};

use crate::place::Place;

/// An operation in a directory of its own, with what is there before and after.
struct Work {
    name: &'static str,
    act: fn(&str) -> Vec<Mutation>,
    after: &'static [&'static str],
}

const BEFORE: &[&str] = &["d/", "d/a=one", "d/e/", "d/e/b=two", "f=old"];

fn prepare(at: &str) -> Vec<Mutation> {
    vec![
        write(&format!("{at}/f"), "old"),
        write(&format!("{at}/d/a"), "one"),
        write(&format!("{at}/d/e/b"), "two"),
    ]
}

const WORKS: &[Work] = &[
    Work {
        name: "create",
        act: |at| vec![write_if(&format!("{at}/new"), "new", Precondition::Absent)],
        after: &["d/", "d/a=one", "d/e/", "d/e/b=two", "f=old", "new=new"],
    },
    Work {
        name: "overwrite",
        act: |at| vec![write(&format!("{at}/f"), "new")],
        after: &["d/", "d/a=one", "d/e/", "d/e/b=two", "f=new"],
    },
    Work {
        name: "append",
        act: |at| vec![append(&format!("{at}/f"), "+")],
        after: &["d/", "d/a=one", "d/e/", "d/e/b=two", "f=old+"],
    },
    Work {
        name: "append to nothing",
        act: |at| vec![append_or_create(&format!("{at}/log"), "+")],
        after: &["d/", "d/a=one", "d/e/", "d/e/b=two", "f=old", "log=+"],
    },
    Work {
        name: "remove",
        act: |at| vec![remove(&format!("{at}/f"))],
        after: &["d/", "d/a=one", "d/e/", "d/e/b=two"],
    },
    Work {
        name: "remove a tree",
        act: |at| vec![remove_tree(&format!("{at}/d"))],
        after: &["f=old"],
    },
    Work {
        name: "copy",
        act: |at| vec![copy(&format!("{at}/f"), &format!("{at}/g"))],
        after: &["d/", "d/a=one", "d/e/", "d/e/b=two", "f=old", "g=old"],
    },
    Work {
        name: "move a file",
        act: |at| vec![rename(&format!("{at}/f"), &format!("{at}/g"))],
        after: &["d/", "d/a=one", "d/e/", "d/e/b=two", "g=old"],
    },
    Work {
        name: "move a directory",
        act: |at| vec![rename(&format!("{at}/d"), &format!("{at}/g"))],
        after: &["f=old", "g/", "g/a=one", "g/e/", "g/e/b=two"],
    },
    Work {
        name: "make directories",
        act: |at| vec![make_dirs(&format!("{at}/m/n"))],
        after: &["d/", "d/a=one", "d/e/", "d/e/b=two", "f=old", "m/", "m/n/"],
    },
    Work {
        name: "link",
        act: |at| vec![link(&format!("{at}/l"), "f")],
        after: &["d/", "d/a=one", "d/e/", "d/e/b=two", "f=old", "l->f"],
    },
    Work {
        name: "set a mode",
        act: |at| vec![set_mode(&format!("{at}/f"), 0o700)],
        after: &["d/", "d/a=one", "d/e/", "d/e/b=two", "f=old*"],
    },
    Work {
        name: "a batch",
        act: |at| {
            vec![
                write(&format!("{at}/f"), "new"),
                append(&format!("{at}/d/a"), "+"),
                remove(&format!("{at}/d/e/b")),
            ]
        },
        after: &["d/", "d/a=one+", "d/e/", "f=new"],
    },
];

/// What is in a directory, one line for each entry; `*` stands for the mode 0700 of a file.
async fn state(probe: &Probe, at: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for path in probe.names_deep(at).await {
        let stat = probe.stat(&path).await;
        let below = path.strip_prefix(&format!("{at}/")).unwrap().to_owned();
        lines.push(match stat.kind {
            EntryKind::Directory => below + "/",
            EntryKind::Symlink => format!("{below}->{}", stat.target.unwrap()),
            _ => {
                let mark = if stat.mode == Some(0o700) { "*" } else { "" };
                format!("{below}={}{mark}", probe.text(&path).await)
            }
        });
    }
    lines
}

/// Two views of one place: through the proxy, and past it.
struct Bench {
    proxy: Proxy,
    spoiled: Probe,
    direct: Probe,
    place: Place,
}

impl Bench {
    async fn new(server: &Server, options: &[(&str, u64)]) -> Self {
        let proxy = Proxy::before(server);
        let place = Place::on(server);
        let through = place.through(&proxy);
        let through = options
            .iter()
            .fold(through, |place, (name, value)| place.with(name, *value));
        Self {
            spoiled: through.open().await,
            direct: place.open().await,
            proxy,
            place,
        }
    }

    /// Does `work` in the directory `at` while `rule` holds. Gives whether the rule struck.
    async fn ridden_out(&self, work: &Work, at: &str, rule: Rule, fault: &Fault) -> bool {
        self.direct.batch(prepare(at)).await;
        let struck = self.proxy.add(rule);
        let outcome = self.spoiled.try_batch((work.act)(at)).await;
        self.proxy.clear();
        let told = format!("{} with {fault:?} {at}: {:#?}", work.name, self.proxy.seen());
        assert!(outcome.is_ok(), "{told}: {outcome:?}");
        assert_eq!(state(&self.direct, at).await, work.after, "{told}");
        self.proxy.forget();
        struck.struck() > 0
    }
}

async fn sweep(fault: Fault) {
    let bench = Bench::new(Server::shared_seaweed(), &[]).await;
    for work in WORKS {
        for skip in 0.. {
            let at = format!("{}-{skip}", work.name.replace(' ', "-"));
            let rule = Rule::new(fault.clone()).skip(skip).times(1);
            if !bench.ridden_out(work, &at, rule, &fault).await {
                assert!(skip > 0, "{} asks nothing", work.name);
                break;
            }
        }
    }
    let left: Vec<_> = Server::shared_seaweed().boto().keys(&bench.place.key(".garret"));
    assert_eq!(left, Vec::<String>::new(), "nothing of Garret's own is left");
}

#[test]
fn a_server_that_is_busy_once_is_asked_again() {
    block_on(sweep(Fault::slow_down()));
}

#[test]
fn a_server_that_fails_once_is_asked_again() {
    block_on(sweep(Fault::internal_error()));
}

#[test]
fn a_request_that_breaks_off_is_sent_again() {
    block_on(sweep(Fault::ResetRequest));
}

#[test]
fn an_answer_that_breaks_off_changes_nothing() {
    block_on(sweep(Fault::ResetResponse));
}

#[test]
fn an_answer_that_ends_early_changes_nothing() {
    block_on(sweep(Fault::TruncateResponse));
}

#[test]
fn a_lost_answer_is_no_second_change() {
    block_on(sweep(Fault::LoseResponse));
}

/// What cannot be done is said, and nothing is half done.
async fn gives_up(fault: Fault, skip: u64, kinds: &[ErrorKind], options: &[(&str, u64)]) {
    let bench = Bench::new(Server::shared_seaweed(), options).await;
    for work in WORKS {
        let at = work.name.replace(' ', "-");
        bench.direct.batch(prepare(&at)).await;
        let struck = bench.proxy.add(Rule::new(fault.clone()).skip(skip));
        let outcome = bench.spoiled.try_batch((work.act)(&at)).await;
        bench.proxy.clear();
        // Whoever comes next settles what was begun.
        let found = state(&bench.place.open().await, &at).await;
        let told = format!("{} with {fault:?} after {skip}: {outcome:?}", work.name);
        match outcome {
            Ok(_) => assert_eq!(found, work.after, "{told}"),
            Err(error) => {
                bench.spoiled.check_error(&error);
                assert!(kinds.contains(&error.kind()), "{told}");
                assert!(struck.struck() > 0, "{told}");
                let is_part = work.name == "a batch" || work.name == "remove a tree";
                assert!(is_part || found == BEFORE || found == work.after, "{told}: {found:?}");
            }
        }
    }
}

#[test]
fn a_server_that_stays_busy_is_named() {
    let options = [("max_retries", 2)];
    block_on(async {
        for skip in [0, 1, 2, 4] {
            gives_up(Fault::slow_down(), skip, &[ErrorKind::Unavailable], &options).await;
        }
    });
}

#[test]
fn answers_that_stay_lost_are_named() {
    let options = [("max_retries", 2)];
    block_on(async {
        for skip in [0, 1, 3] {
            gives_up(Fault::LoseResponse, skip, &[ErrorKind::Unavailable], &options).await;
        }
    });
}

#[test]
fn answers_that_never_come_are_a_timeout() {
    let options = [("max_retries", 1), ("request_timeout_ms", 150)];
    let kinds = [ErrorKind::Timeout, ErrorKind::Unavailable];
    block_on(gives_up(Fault::StallResponse, 0, &kinds, &options));
}

/// A read gives the whole content or an error, a list all names or an error.
#[test]
fn half_an_answer_is_never_taken_for_a_whole_one() {
    block_on(async {
        let bench = Bench::new(Server::shared_seaweed(), &[("max_retries", 2)]).await;
        let content: String = (0..40_000).map(|number| format!("{number}\n")).collect();
        bench.direct.write("big", content.clone()).await;
        let names: Vec<_> = (0..60).map(|index| format!("d/{index:03}")).collect();
        bench
            .direct
            .batch(names.iter().map(|name| write(name, "x")).collect())
            .await;
        for fault in [Fault::TruncateResponse, Fault::ResetResponse] {
            for times in [1, u64::MAX] {
                bench.proxy.add(Rule::new(fault.clone()).times(times));
                match bench.spoiled.try_read("big").await {
                    Ok(read) => assert_eq!(read.bytes, content, "{fault:?} {times}"),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Unavailable, "{fault:?}: {error:?}");
                        assert!(times > 1, "one fault is ridden out: {error:?}");
                    }
                }
                bench.proxy.clear();
                bench.proxy.add(Rule::new(fault.clone()).times(times));
                let at = garret_testkit::mutations::path("d");
                match bench.spoiled.storage().list(&at, Default::default()).await {
                    Ok(page) => assert_eq!(page.entries.len(), names.len(), "{fault:?} {times}"),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Unavailable, "{fault:?}: {error:?}");
                        assert!(times > 1, "one fault is ridden out: {error:?}");
                    }
                }
                bench.proxy.clear();
            }
        }
    });
}

/// Latency alone changes nothing.
#[test]
fn a_slow_network_is_only_slow() {
    block_on(async {
        let bench = Bench::new(Server::shared_seaweed(), &[]).await;
        let pause = std::time::Duration::from_millis(15);
        for work in WORKS {
            let at = work.name.replace(' ', "-");
            let rule = Rule::new(Fault::Delay(pause)).one_in(2, 5);
            bench.ridden_out(work, &at, rule, &Fault::Delay(pause)).await;
        }
    });
}

/// As where others replace it all the time.
#[test]
fn an_append_to_a_small_file_that_keeps_changing_under_its_reader_arrives() {
    let server = Server::shared_moto();
    let proxy = Proxy::before(server);
    block_on(async {
        let place = Place::on(server);
        place.open().await.write("log", "one ").await;
        let probe = place.through(&proxy).open().await;
        let (status, code) = (412, "PreconditionFailed");
        proxy.add(
            Rule::new(Fault::TruncateResponse)
                .operation("GET")
                .target("log")
                .times(1),
        );
        proxy.add(
            Rule::new(Fault::Answer { status, code })
                .operation("GET")
                .target("log")
                .times(1),
        );
        proxy.add(
            Rule::new(Fault::TruncateResponse)
                .operation("GET")
                .target("log")
                .times(1),
        );
        let struck = proxy.add(
            Rule::new(Fault::Answer { status, code })
                .operation("GET")
                .target("log")
                .times(1),
        );
        probe.apply(append("log", "two")).await;
        assert_eq!(struck.struck(), 1);
        assert_eq!(probe.text("log").await, "one two");
    });
}
