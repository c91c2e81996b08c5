//! Answers are bounded, and a loop over their pages meets everything exactly once.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use garret_tools::Toolbox;
use serde_json::{Value, json};

use crate::support::{bounded, done, put, toolbox};

const KIB: usize = 1024;

/// Calls a tool page after page, handing `from` of each answer back as `to`.
fn pages(tools: &Toolbox, tool: &str, arguments: Value, from: &str, to: &str) -> Vec<(String, Value)> {
    let mut pages = vec![done(tools, tool, arguments.clone())];
    while let Some(next) = pages.last().unwrap().1.get(from).cloned() {
        let mut arguments = arguments.clone();
        arguments[to] = next;
        pages.push(done(tools, tool, arguments));
        assert!(pages.len() < 5_000, "the pages do not end");
    }
    pages
}

#[test]
fn the_pages_of_a_text_are_the_text() {
    let content: String = (0..5_000)
        .map(|n| format!("line {n}{}\n", "x".repeat(n % 90)))
        .collect();
    for (max_lines, max_kib) in [(2_000, 100), (7, 100), (100_000, 1), (100_000, 3)] {
        let tools = bounded(max_lines, max_kib);
        put(&tools, "a.txt", &content);
        let pages = pages(&tools, "read_file", json!({"path": "a.txt"}), "next_offset", "offset");
        let together: String = pages
            .iter()
            .map(|(_, data)| data["content"].as_str().unwrap())
            .collect();
        assert!(
            together == content,
            "{max_lines} lines, {max_kib} KiB: {} pages",
            pages.len()
        );
        for (text, data) in &pages {
            assert!(text.len() <= max_kib * KIB, "{} bytes", text.len());
            assert!(text.lines().count() <= max_lines + 1);
            assert!(data["content"].as_str().unwrap().len() <= max_kib * KIB);
        }
        let (last_text, last) = pages.last().unwrap();
        assert_eq!(last["eof"], true);
        assert!(last_text.ends_with("; end of file]"));
        let numbered: Vec<_> = pages
            .iter()
            .flat_map(|(text, _)| text.lines().filter(|line| !line.starts_with('[')))
            .collect();
        assert_eq!(numbered.len(), 5_000);
        assert!(
            numbered
                .iter()
                .enumerate()
                .all(|(index, line)| line.trim_start().starts_with(&format!("{}\tline {index}", index + 1)))
        );
    }
}

#[test]
fn the_pages_of_bytes_are_the_bytes() {
    let bytes: Vec<u8> = (0..300_000_u32)
        .map(|n| if n < 150_000 { 0xff } else { (n * 7 % 256) as u8 })
        .collect();
    let tools = toolbox();
    done(
        &tools,
        "write_file",
        json!({"path": "b", "content": STANDARD.encode(&bytes), "encoding": "base64"}),
    );
    for arguments in [
        json!({"path": "b"}),
        json!({"path": "b", "encoding": "base64"}),
        json!({"path": "b", "limit": 70_001}),
    ] {
        let pages = pages(&tools, "read_file", arguments.clone(), "next_offset", "offset");
        let decoded = pages
            .iter()
            .flat_map(|(_, data)| STANDARD.decode(data["content"].as_str().unwrap()).unwrap());
        assert!(decoded.collect::<Vec<_>>() == bytes, "{arguments}");
        for (text, data) in pages {
            let most = if arguments.get("limit").is_some() { 100 } else { 24 } * KIB;
            assert!(text.len() <= most && data["content"].as_str().unwrap().len() <= most);
        }
    }
}

#[test]
fn a_text_with_stray_bytes_pages_by_lines() {
    let mut bytes = "plain\n".repeat(3_000).into_bytes();
    bytes.extend(b"caf\xe9\n");
    bytes.extend("plain\n".repeat(3_000).into_bytes());
    let tools = toolbox();
    done(
        &tools,
        "write_file",
        json!({"path": "b", "content": STANDARD.encode(&bytes), "encoding": "base64"}),
    );
    let pages = pages(
        &tools,
        "read_file",
        json!({"path": "b", "limit": 1_000}),
        "next_offset",
        "offset",
    );
    let mut together = Vec::new();
    for (_, data) in &pages {
        let content = data["content"].as_str().unwrap();
        match data["encoding"].as_str().unwrap() {
            "base64" => together.extend(STANDARD.decode(content).unwrap()),
            _ => together.extend(content.as_bytes()),
        }
    }
    assert!(together == bytes);
    assert_eq!(pages.iter().filter(|(_, data)| data["encoding"] == "base64").count(), 1);
}

#[test]
fn the_pages_of_a_list_are_the_list() {
    for (limit, max_lines, max_kib) in [
        (None, 2_000, 100),
        (Some(7), 2_000, 100),
        (None, 10, 100),
        (Some(500), 2_000, 1),
    ] {
        let tools = bounded(max_lines, max_kib);
        let mut expected = Vec::new();
        for n in 0..1_200 {
            let path = format!("d{:02}/file {n:04} % {}", n / 100, "é".repeat(n % 40));
            put(&tools, &path, "");
            expected.push(path);
        }
        let arguments = json!({"recursive": true, "limit": limit});
        let pages = pages(&tools, "ls", arguments, "next_cursor", "cursor");
        let entries = pages.iter().flat_map(|(_, data)| data["entries"].as_array().unwrap());
        let files: Vec<_> = entries
            .filter(|entry| entry["type"] == "file")
            .map(|entry| entry["path"].as_str().unwrap())
            .collect();
        assert_eq!(files, expected, "limit {limit:?}, {max_lines} lines, {max_kib} KiB");
        for (text, data) in &pages {
            assert!(
                text.len() <= max_kib * KIB && text.lines().count() <= max_lines + 2,
                "{text}"
            );
            assert!(limit.is_none_or(|limit| data["entries"].as_array().unwrap().len() <= limit));
            let shown = text
                .lines()
                .filter(|line| !line.ends_with("(continued)") && !line.starts_with('['))
                .count();
            assert_eq!(
                shown,
                data["entries"].as_array().unwrap().len(),
                "text and data show the same"
            );
        }
    }
}

#[test]
fn the_pages_of_a_search_are_the_search() {
    for (limit, max_lines, max_kib) in [
        (None, 2_000, 100),
        (Some(7), 2_000, 100),
        (None, 10, 100),
        (None, 2_000, 1),
    ] {
        let tools = bounded(max_lines, max_kib);
        let mut expected = Vec::new();
        for n in 0..300 {
            let path = format!("d{}/file {n:03} {}", n / 100, "é".repeat(n % 40));
            put(&tools, &path, &format!("no\nneedle {n}\nno\nno\nno\nneedle again\n"));
            expected.push(path);
        }
        let found = pages(
            &tools,
            "glob",
            json!({"pattern": "**", "limit": limit}),
            "next_cursor",
            "cursor",
        );
        let paths: Vec<_> = found
            .iter()
            .flat_map(|(_, data)| data["paths"].as_array().unwrap().clone())
            .collect();
        assert_eq!(paths, expected, "limit {limit:?}, {max_lines} lines, {max_kib} KiB");
        let mut offset = 0;
        let mut lines = Vec::new();
        loop {
            let arguments = json!({"pattern": "needle", "limit": limit, "offset": offset, "context": 1});
            let (text, data) = done(&tools, "grep", arguments);
            assert!(
                text.len() <= max_kib * KIB && text.lines().count() <= max_lines + 1,
                "{text}"
            );
            let matches = data["matches"].as_array().unwrap();
            offset += matches.len();
            lines.extend(
                matches
                    .iter()
                    .map(|found| (found["path"].clone(), found["line_number"].clone())),
            );
            assert_eq!(data["match_count"], 600);
            if data["truncated"] == false {
                break;
            }
            assert!(text.ends_with(&format!("; more: offset={offset}]")), "{text}");
        }
        let all: Vec<_> = expected
            .iter()
            .flat_map(|path| [2, 6].map(|line| (json!(path), json!(line))))
            .collect();
        assert_eq!(lines, all, "limit {limit:?}, {max_lines} lines, {max_kib} KiB");
    }
}

#[test]
fn a_large_difference_is_bounded() {
    let tools = bounded(50, 4);
    put(&tools, "a.txt", &"one\n".repeat(3_000));
    let arguments = json!({"path": "a.txt", "old_text": "one", "new_text": "two", "replace_all": true});
    let (text, data) = done(&tools, "edit_file", arguments);
    assert!(text.len() <= 4 * KIB && text.lines().count() <= 51);
    assert!(text.ends_with("more lines not shown]"), "{text}");
    assert_eq!(data["replacements"], 3_000);
    assert!(data.get("diff").is_none());
}

#[test]
fn a_page_has_25_kb_unless_more_is_asked_for() {
    let tools = toolbox();
    put(&tools, "a.txt", &"some words that match\n".repeat(5_000));
    for (tool, arguments) in [
        ("read_file", json!({"path": "a.txt"})),
        ("grep", json!({"pattern": "words"})),
    ] {
        let (text, _) = done(&tools, tool, arguments.clone());
        assert!(text.len() <= 25_000 && text.len() > 20_000, "{tool}: {}", text.len());
        assert!(text.contains("; more: offset="), "{}", &text[text.len() - 100..]);
        let mut asked = arguments;
        asked["limit"] = json!(2_000);
        let (more, data) = done(&tools, tool, asked);
        assert!(more.len() > 50_000 && more.len() <= 100 * KIB, "{tool}: {}", more.len());
        // What the data has, the text has.
        let count = match tool {
            "grep" => data["matches"].as_array().unwrap().len(),
            _ => data["content"].as_str().unwrap().lines().count(),
        };
        assert_eq!(count, more.lines().count() - 1);
    }
}

#[test]
fn several_files_come_in_one_answer_that_is_bounded() {
    let tools = bounded(2_000, 4);
    put(&tools, "a.txt", "one\ntwo\n");
    put(&tools, "b.txt", "three\n");
    let (text, data) = done(&tools, "read_file", json!({"paths": ["a.txt", "none", "b.txt"]}));
    insta::assert_snapshot!(text, @r"
    ==> a.txt <==
         1	one
         2	two
    ==> none <==
    not_found: no such file or directory: `none`. Hint: list the directory to see its entries.
    ==> b.txt <==
         1	three
    ");
    assert_eq!(data["files"][1]["content"], "three\n");
    assert_eq!(data["failed"][0]["kind"], "not_found");
    assert!(data.get("content").is_none() && data.get("left_out").is_none());

    let names: Vec<String> = (0..40).map(|n| format!("f{n:02}")).collect();
    for name in &names {
        put(&tools, name, &"words in a line\n".repeat(20));
    }
    let mut rest = names.clone();
    let mut read = Vec::new();
    while !rest.is_empty() {
        let (text, data) = done(&tools, "read_file", json!({"paths": rest}));
        assert!(text.len() <= 4 * KIB, "{}", text.len());
        let files = data["files"].as_array().unwrap();
        assert!(!files.is_empty());
        for file in files {
            assert_eq!(file["eof"], true, "{text}");
            read.push(file["path"].as_str().unwrap().to_owned());
        }
        let left_out = data.get("left_out").cloned().unwrap_or(json!([]));
        rest = serde_json::from_value(left_out).unwrap();
        if let Some(first) = rest.first() {
            assert!(text.contains(&format!("[no room for \"{first}\"")), "{text}");
        }
    }
    assert_eq!(read, names);
}

#[test]
fn a_file_that_does_not_fit_beside_others_says_how_it_goes_on() {
    let tools = bounded(2_000, 4);
    put(&tools, "a.txt", "one\n");
    put(&tools, "long.txt", &"words in a line\n".repeat(2_000));
    let (text, data) = done(&tools, "read_file", json!({"paths": ["a.txt", "long.txt", "a.txt"]}));
    assert!(text.len() <= 4 * KIB, "{}", text.len());
    let next = data["files"][1]["next_offset"].as_u64().unwrap();
    assert!(text.contains(&format!("; more: offset={next}]")), "{text}");
    assert_eq!(data["left_out"], json!(["a.txt"]));
    assert!(
        text.ends_with("[no room for \"a.txt\": read them in another call]"),
        "{text}"
    );
}

#[test]
fn the_last_lines_of_a_file_are_shown_with_their_numbers() {
    let tools = bounded(2_000, 4);
    let content: String = (1..=300).map(|n| format!("line {n}\n")).collect();
    put(&tools, "a.txt", &content);
    let (text, data) = done(&tools, "read_file", json!({"path": "a.txt", "tail": 2}));
    assert_eq!(
        text,
        "   299\tline 299\n   300\tline 300\n[lines 299–300 of 2,592 bytes; end of file]"
    );
    assert_eq!(data["content"], "line 299\nline 300\n");
    // More than an answer holds: the end stays, in text and data alike.
    let (text, data) = done(&tools, "read_file", json!({"path": "a.txt", "tail": 300}));
    assert!(text.len() <= 4 * KIB && text.contains("   300\tline 300\n["), "{text}");
    assert!(
        text.ends_with("; more lines do not fit into one answer; end of file]"),
        "{text}"
    );
    let first = data["range"]["start"].as_u64().unwrap();
    assert!(text.starts_with(&format!("{:>6}\t", first + 1)), "{text}");
    let kept = data["content"].as_str().unwrap();
    assert!(content.ends_with(kept) && kept.starts_with(&format!("line {}\n", first + 1)));
    let text = crate::support::refused(&tools, "read_file", json!({"path": "a.txt", "tail": 2, "offset": 5}));
    assert!(text.contains("`tail` counts lines from the end"), "{text}");
}

#[test]
fn lists_by_time_page_by_what_fits() {
    let clock = std::sync::Arc::new(garret_core::FixedClock::starting_at(
        "2026-01-02T03:04:05Z".parse().unwrap(),
    ));
    let storage = std::sync::Arc::new(garret_core::MemoryStorage::new(clock.clone()));
    let workspace = garret_workspace::Workspace::builder(storage)
        .name("box")
        .open()
        .unwrap();
    let config = garret_core::ToolsConfig {
        max_kib: 1,
        ..garret_core::ToolsConfig::default()
    };
    let tools = Toolbox::new(workspace, config);
    let mut expected = Vec::new();
    for n in 0..120 {
        clock.advance(std::time::Duration::from_secs(1));
        let path = format!("d/file {:03} % {}", (n * 7) % 120, "é".repeat(n % 20));
        put(&tools, &path, "");
        expected.insert(0, path);
    }
    let arguments = json!({"path": "d", "sort": "modified"});
    let listed = pages(&tools, "ls", arguments, "next_cursor", "cursor");
    let paths: Vec<_> = listed
        .iter()
        .flat_map(|(_, data)| data["entries"].as_array().unwrap())
        .map(|entry| entry["path"].as_str().unwrap())
        .collect();
    assert!(
        listed.len() > 3 && paths == expected,
        "{} pages: {paths:?}",
        listed.len()
    );
    assert!(
        listed[0].0.starts_with("2026-01-02T03:06:05Z  file "),
        "{}",
        listed[0].0
    );
    let arguments = json!({"pattern": "**", "sort_by": "mtime"});
    let found = pages(&tools, "glob", arguments, "next_cursor", "cursor");
    let paths: Vec<_> = found
        .iter()
        .flat_map(|(_, data)| data["paths"].as_array().unwrap())
        .map(|path| path.as_str().unwrap())
        .collect();
    assert!(found.len() > 3 && paths == expected, "{} pages: {paths:?}", found.len());
}
