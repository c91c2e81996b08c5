//! Lists of more than one page: complete, in order, and asked for no further than they are wanted.

use std::collections::BTreeSet;

use garret_core::{EntryPath, ListOptions, Storage};
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{path, write};
use garret_testkit::s3::{Brand, Proxy, Server};

use crate::place::Place;

/// More than a page of a server has.
const FILES: usize = 1_050;

/// Files in one directory, with names that stand before, in and after it in one order or another.
fn names() -> Vec<String> {
    let mut names: Vec<_> = (0..FILES).map(|number| format!("many/f{number:04}.txt")).collect();
    let odd = [
        "f0500",
        "f0500-b/x",
        "f0500/y",
        "f0500/y.z",
        "a",
        "a-b",
        "a.txt",
        "zz/deep/x",
        "zz-",
        "zz.",
    ];
    names.retain(|name| name != "many/f0500.txt");
    names.extend(
        odd.iter()
            .filter(|name| **name != "f0500")
            .map(|name| format!("many/{name}")),
    );
    names
}

/// Everything in `many`, in order, directories included.
fn expected(is_deep: bool) -> Vec<String> {
    let mut all = BTreeSet::new();
    for name in names() {
        let ends = name.match_indices('/').map(|(at, _)| at).chain([name.len()]);
        all.extend(ends.map(|end| name[..end].to_owned()).filter(|name| name.contains('/')));
    }
    let depth = |name: &&String| is_deep || name.matches('/').count() == 1;
    all.iter().filter(depth).cloned().collect()
}

async fn page(storage: &dyn Storage, is_deep: bool, limit: usize, after: Option<&str>) -> (Vec<String>, bool) {
    let options = ListOptions {
        is_deep,
        limit,
        after: after.map(|after| EntryPath::from(path(after))),
        ..ListOptions::default()
    };
    let page = storage.list(&path("many"), options).await.unwrap();
    (
        page.entries.iter().map(|entry| entry.path.display_path()).collect(),
        page.has_more,
    )
}

async fn all_pages(storage: &dyn Storage, is_deep: bool, limit: usize) -> Vec<String> {
    let (mut all, mut has_more) = page(storage, is_deep, limit, None).await;
    while has_more {
        let (next, more) = page(storage, is_deep, limit, all.last().map(String::as_str)).await;
        all.extend(next);
        has_more = more;
    }
    all
}

async fn first_page_of_tree(place: &Place, proxy: &Proxy) {
    let mut cursor = None;
    for stretch in [0..50, 50..100] {
        let storage = place.try_open().await.unwrap();
        proxy.forget();
        let (found, has_more) = page(&*storage, true, 50, cursor.as_deref()).await;
        assert_eq!(proxy.operations(), ["LIST"]);
        assert!(has_more);
        assert_eq!(found, expected(true)[stretch]);
        cursor = found.last().cloned();
    }
}

#[test]
fn a_list_of_several_pages_is_whole_and_its_first_page_takes_one_request() {
    for server in [Server::shared_seaweed(), Server::shared_moto()] {
        let proxy = Proxy::before(server);
        let place = Place::on(server).through(&proxy);
        block_on(async {
            let probe = place.open().await;
            probe.batch(names().iter().map(|name| write(name, "x")).collect()).await;
            let storage = place.try_open().await.unwrap();
            proxy.forget();
            let (first, has_more) = page(&*storage, false, 100, None).await;
            assert_eq!(first, expected(false)[..100]);
            assert!(has_more);
            assert_eq!(proxy.operations(), ["LIST"], "{:?}", server.brand());
            if server.brand() == Brand::Moto {
                // Where keys come in byte order, one page is enough of a tree, too, and of what comes after somebody else's cursor.
                first_page_of_tree(&place, &proxy).await;
            }
            for (is_deep, limit) in [(false, 700), (false, 5_000), (true, 400), (true, 5_000)] {
                let all = all_pages(&*storage, is_deep, limit).await;
                assert_eq!(all, expected(is_deep), "{:?} {is_deep} {limit}", server.brand());
            }
            // A cursor of somebody else's, and one in the middle of names that stand before their directory.
            for cursor in ["many/f0499.txt", "many/f0500-b", "many/f0500-b/x", "many/zz-"] {
                for is_deep in [false, true] {
                    let (after, _) = page(&*storage, is_deep, 3, Some(cursor)).await;
                    let rest: Vec<_> = expected(is_deep)
                        .into_iter()
                        .filter(|name| name.as_str() > cursor)
                        .take(3)
                        .collect();
                    assert_eq!(after, rest, "{:?} {is_deep} {cursor}", server.brand());
                }
            }
        });
    }
}
