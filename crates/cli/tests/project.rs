//! A real project in a workspace: its dependency vendored and kept out of history, its tests run, its build undone.

use crate::common::Room;

/// A small project for Node, with the one package that it depends on.
fn project(room: &Room) {
    room.put("tree/package.json", r#"{"name": "greeter", "scripts": {"build": "node build.js", "test": "node --test"}, "dependencies": {"upper": "1.0.0"}}"#)
        .put("tree/node_modules/upper/package.json", r#"{"name": "upper", "version": "1.0.0", "main": "index.js"}"#)
        .put("tree/node_modules/upper/index.js", "module.exports = (text) => text.toUpperCase();\n")
        .put("tree/greet.js", "const upper = require('upper');\nmodule.exports = (name) => upper(`hello ${name}`);\n")
        .put("tree/greet.test.js", "const test = require('node:test');\nconst assert = require('node:assert');\ntest('greets', () => assert.equal(require('./greet.js')('you'), 'HELLO YOU'));\n")
        .put("tree/build.js", "const fs = require('fs');\nfs.mkdirSync('dist', { recursive: true });\nfs.writeFileSync('dist/greeting.txt', require('./greet.js')('all'));\nfs.writeFileSync('node_modules/.built', 'yes');\n");
}

#[test]
fn a_project_is_tested_and_built_inside_and_the_build_is_undone() {
    for storage in ["filestore:project", "local:tree"] {
        let room = Room::new();
        project(&room);
        let config = format!(
            "[workspaces.project]\nstorage = '{storage}'\nexclude = ['node_modules/']\ncapabilities = {{ fs = true, shell = true }}\n"
        );
        room.put("garret.toml", config).trust();
        if storage.starts_with("filestore") {
            room.run(&["import", "--from", "tree", "--name", "project"]).done();
            // What history leaves out lives in the bench only, so a command brings it.
            let vendored = "mkdir -p node_modules/upper && echo '{\"main\": \"index.js\"}' > node_modules/upper/package.json && \
                            echo 'module.exports = (text) => text.toUpperCase();' > node_modules/upper/index.js";
            room.run(&["-w", "project", "run", "-c", vendored]).done();
        }
        let tested = room.run(&["-w", "project", "run", "--", "npm", "test", "--offline"]);
        assert!(tested.done().contains("# pass 1"), "{}", tested.out());
        room.run(&["-w", "project", "run", "--", "npm", "run", "build", "--offline"])
            .done();
        let built = ["-w", "project", "cat", "dist/greeting.txt"];
        assert_eq!(room.run(&built).done(), "HELLO ALL");
        room.run(&["-w", "project", "undo"]).done();
        assert_ne!(room.run(&built).code(), 0, "the build is gone");
        let kept = room.run(&[
            "-w",
            "project",
            "run",
            "-c",
            "cat node_modules/.built && node --test | grep '# pass'",
        ]);
        assert!(
            kept.done().starts_with("yes# pass 1"),
            "what history leaves out stays: {}",
            kept.out()
        );
        let shown = room.run(&["-w", "project", "show", "now"]);
        assert!(!shown.out().contains("node_modules"), "{}", shown.out());
    }
}
