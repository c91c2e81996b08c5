// Does the benchmark's work in Node, through agentfs-sdk or through `garret mcp`.
//
// The benchmark writes one JSON message a line and waits for the answer, with the clock in its own hand. The work, the names and the
// content are the same here, in work.py and in the benchmark itself.

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const FOLDERS = 10;
const LINE = 64;
const BIG = "big.txt";

const line = (text) => text.padEnd(LINE - 1, ".") + "\n";
const digits = (number) => String(number).padStart(8, "0");
const nameOf = (turn, number) => `r${turn}/d${number % FOLDERS}/f${number}.txt`;
const bigLine = (place, turn) => line(`line ${digits(place)} turn ${digits(turn)} `);

const versionOf = (name) => JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;

function methodsOf(value) {
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype
    ? []
    : [...Object.getOwnPropertyNames(prototype), ...methodsOf(prototype)];
}

/** The SDK as it comes. It has no edit, but writes a range in place. */
class AgentFs {
  static async open(message) {
    const { AgentFS } = await import("agentfs-sdk");
    const store = new AgentFs();
    store.agent = await AgentFS.open({ path: message.path });
    store.fs = store.agent.fs;
    if (message.synchronous) await store.agent.getDatabase().exec(`PRAGMA synchronous = ${message.synchronous}`);
    return store;
  }

  async settings() {
    const pragmas = {};
    for (const pragma of ["journal_mode", "synchronous", "page_size", "cache_size"]) {
      pragmas[pragma] = Object.values(await this.agent.getDatabase().prepare(`PRAGMA ${pragma}`).get())[0];
    }
    return {
      version: versionOf("agentfs-sdk"),
      runtime: `Node ${process.versions.node}`,
      engine: `@tursodatabase/database ${versionOf("@tursodatabase/database")}`,
      chunk_size: this.fs.getChunkSize(),
      methods: [this.agent, this.fs, this.agent.tools].flatMap(methodsOf),
      ...pragmas,
    };
  }

  write = (path, content) => this.fs.writeFile(`/${path}`, content);
  read = (path) => this.fs.readFile(`/${path}`, "utf8");
  list = async (path) => (await this.fs.readdirPlus(`/${path}`)).length;
  remove = (path) => this.fs.unlink(`/${path}`);

  async edit(path, offset, _old, replacement) {
    const file = await this.fs.open(`/${path}`);
    await file.pwrite(offset, Buffer.from(replacement));
  }

  close = () => this.agent.close();
}

/** Garret in a process of its own, called over standard input and output. */
class GarretMcp {
  static async open(message) {
    const store = new GarretMcp();
    const [program, ...rest] = message.command;
    store.server = spawn(program, rest, { stdio: ["pipe", "pipe", "inherit"] });
    store.answers = createInterface({ input: store.server.stdout })[Symbol.asyncIterator]();
    store.number = 0;
    const clientInfo = { name: "bench", version: "0" };
    await store.request("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo });
    store.send({ jsonrpc: "2.0", method: "notifications/initialized" });
    return store;
  }

  send = (message) => this.server.stdin.write(JSON.stringify(message) + "\n");

  async request(method, params) {
    this.number += 1;
    this.send({ jsonrpc: "2.0", id: this.number, method, params });
    const answer = JSON.parse((await this.answers.next()).value);
    if (!answer.result || answer.result.isError) throw new Error(JSON.stringify(answer).slice(0, 500));
    return answer.result;
  }

  call = async (name, args) => (await this.request("tools/call", { name, arguments: args })).structuredContent;

  write = (path, content) => this.call("write_file", { path, content });
  read = async (path) => (await this.call("read_file", { path })).content;
  list = async (path) => (await this.call("ls", { path })).entries.length;
  edit = (path, _offset, old_text, new_text) => this.call("edit_file", { path, old_text, new_text });
  remove = (path) => this.call("rm", { path });
  close = () => this.server.stdin.end();
}

function check(isRight, what) {
  if (!isRight) throw new Error(`not so: ${what}`);
}

class Work {
  constructor(store, sizes) {
    this.store = store;
    this.sizes = sizes;
    this.rest = line("the same in every file ").repeat(sizes.file_lines - 1);
  }

  async prepare() {
    const lines = Array.from({ length: this.sizes.big_lines }, (_, place) => bigLine(place, 0));
    await this.store.write(BIG, lines.join(""));
  }

  settings = () => this.store.settings();

  async write({ turn }) {
    for (let number = 0; number < this.sizes.files; number++) {
      const head = line(`turn ${digits(turn)} file ${digits(number)} `);
      await this.store.write(nameOf(turn, number), head + this.rest);
    }
  }

  async read({ turn }) {
    for (let number = 0; number < this.sizes.files; number++) {
      const content = await this.store.read(nameOf(turn, number));
      check(content.length === this.sizes.file_lines * LINE, "the file is whole");
    }
  }

  async list({ turn }) {
    for (let folder = 0; folder < FOLDERS; folder++) {
      const count = await this.store.list(`r${turn}/d${folder}`);
      check(count === Math.floor(this.sizes.files / FOLDERS), "the list is whole");
    }
  }

  async edit({ turn }) {
    for (let edit = 0; edit < this.sizes.edits; edit++) {
      const place = Math.floor((edit * this.sizes.big_lines) / this.sizes.edits);
      await this.store.edit(BIG, place * LINE, bigLine(place, turn - 1), bigLine(place, turn));
    }
  }

  async remove({ turn }) {
    for (let number = 0; number < this.sizes.files; number++) await this.store.remove(nameOf(turn, number));
  }

  big = () => this.store.read(BIG);
}

let work;

async function answer(message) {
  if (message.do !== "open") return work[message.do](message);
  const kind = { agentfs: AgentFs, garret: GarretMcp }[message.store];
  work = new Work(await kind.open(message), message.sizes);
  return null;
}

for await (const text of createInterface({ input: process.stdin })) {
  const reply = await answer(JSON.parse(text)).then(
    (value) => ({ answer: value ?? null }),
    (error) => ({ error: String(error) }),
  );
  process.stdout.write(JSON.stringify(reply) + "\n");
}
await work?.store.close();
