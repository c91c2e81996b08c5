// Drives `garret mcp` with the official TypeScript client, the way an agent would. Ends with an error where something is not as promised.
//
// usage: node client.js GARRET DIRECTORY

import assert from "node:assert/strict";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const FS_TOOLS = "read_file write_file append_file edit_file apply_patch ls glob grep stat exists mkdir rm copy move".split(" ");
// Word borders in text that is not ASCII keep the search engine from its fast paths.
const SLOW_SEARCH = { pattern: "\\b\\w{3,}[ab]\\w+x\\b", path: "many" };

const [garret, directory] = process.argv.slice(2);
const client = new Client({ name: "garret-tests", version: "1.0.0" });
const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);

async function listsTheTools() {
  const { tools } = await client.listTools();
  const names = tools.map((tool) => tool.name);
  for (const name of FS_TOOLS) assert(names.includes(name), `${name} is missing`);
  const grep = tools.find((tool) => tool.name === "grep");
  assert.equal(grep.annotations.readOnlyHint, true);
  assert.equal(grep.outputSchema.type, "object");
}

// After a list, this client holds every structured result against its output schema.
async function writesEditsAndReads() {
  const written = await call("write_file", { path: "a.txt", content: "one\ntwo\n" });
  assert.equal(written.structuredContent.size, 8);
  await call("edit_file", { path: "a.txt", old_text: "two", new_text: "three", ifVersion: written.structuredContent.version });
  const read = await call("read_file", { path: "a.txt" });
  assert.equal(read.structuredContent.content, "one\nthree\n");
  const found = await call("grep", { pattern: "three" });
  assert.equal(found.structuredContent.matches[0].line_number, 2);
  const listed = await call("ls", {});
  assert(listed.structuredContent.entries.some((entry) => entry.path === "a.txt"));
  for (const [name, args] of [["stat", { path: "a.txt" }], ["exists", { path: "a.txt" }], ["glob", { pattern: "*.txt" }]]) {
    assert(!(await call(name, args)).isError, name);
  }
}

async function readsAnImage() {
  writeFileSync(join(directory, "pixel.png"), Buffer.from(PIXEL, "base64"));
  const { content } = await call("read_file", { path: "pixel.png" });
  const image = content.find((block) => block.type === "image");
  assert.equal(image.mimeType, "image/png");
  assert.equal(image.data, PIXEL);
}

async function answersErrorsAsResults() {
  symlinkSync("/etc", join(directory, "link"));
  const escaped = await call("read_file", { path: "link/passwd" });
  assert.equal(escaped.isError, true);
  assert.equal(escaped._meta["garret/error"].kind, "path_escape");
  await assert.rejects(call("no_such_tool", {}), { code: -32602 });
}

function makesMuchToSearch() {
  mkdirSync(join(directory, "many"));
  const text = "abécabcabécabcabcabcabcabc\n".repeat(2400);
  for (let number = 0; number < 200; number++) writeFileSync(join(directory, "many", `${number}.txt`), text);
}

// This client drops what it hears of progress in the same breath as the result, so only the start is sure to be seen.
async function showsProgress() {
  const steps = [];
  await call("grep", SLOW_SEARCH, { onprogress: (step) => steps.push(step.message) });
  assert.equal(steps[0], "grep: started");
}

async function cancels() {
  const controller = new AbortController();
  setTimeout(() => controller.abort("enough"), 50);
  await assert.rejects(call("grep", SLOW_SEARCH, { signal: controller.signal }));
  await client.ping();
}

await client.connect(new StdioClientTransport({ command: garret, args: ["mcp", directory, "--structured"] }));
assert.equal(client.getServerVersion().name, "garret");
assert.match(client.getInstructions(), /workspace/);
await client.ping();
await listsTheTools();
await writesEditsAndReads();
await readsAnImage();
await answersErrorsAsResults();
makesMuchToSearch();
await showsProgress();
await cancels();
await client.close();
console.log("the TypeScript client is content");
