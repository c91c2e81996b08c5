// Runs pieces of JavaScript for Garret, one after the other, and keeps what they define.
//
// Each line on descriptor 3 is a word and the code in base64. What the code prints goes where it prints it; when it has ended, the record
// separator and the word end both streams, standard output, by descriptor 4, with the outcome as JSON in base64, and standard error by 5.
// All of it is in a function: what a script declares outside of one is seen by every other script.
(() => {
'use strict';
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const util = require('node:util');
const vm = require('node:vm');
const { createRequire } = require('node:module');

const [REQUESTS, TOLD, WARNED] = [3, 4, 5];
const LARGEST = 256 * 1024;
const loader = vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER;
const { writeSync } = fs;
const { stringify } = JSON;
const { exit } = process;
let pieces = 0;

globalThis.require = createRequire(path.join(process.cwd(), 'code.js'));
globalThis.module = { exports: {} };
globalThis.exports = globalThis.module.exports;
// What was printed is out when the code has ended, and a process that exits loses nothing of it.
for (const stream of [process.stdout, process.stderr]) stream._handle?.setBlocking?.(true);

async function outcomeOf(code) {
  pieces += 1;
  try {
    const value = await evaluated(code, `code-${pieces}.js`);
    return value === undefined ? {} : { result: shown(value) };
  } catch (error) {
    return { error: described(error) };
  }
}

async function evaluated(code, filename) {
  const options = { filename, importModuleDynamically: loader };
  if (!/\bawait\b/.test(code)) return script(code, options).runInThisContext();
  const hoisted = hoist(code);
  if (hoisted) return (await new vm.Script(hoisted, options).runInThisContext())?.value;
  return awaiting(code, options).runInThisContext();
}

// An object alone is an expression, as people mean it, and not a block.
function script(code, options) {
  if (/^\s*\{[^]*\}\s*$/.test(code)) {
    try {
      return new vm.Script(`(${code.trim()})`, options);
    } catch {}
  }
  return new vm.Script(code, options);
}

// Code that awaits becomes a function that is called, out of which its declarations are moved; null where none of it awaits.
function hoist(code) {
  try {
    return require('internal/repl/await').processTopLevelAwait(code);
  } catch {
    return null;
  }
}

// The same for a Node that cannot move declarations: what the code declares ends with it.
function awaiting(code, options) {
  try {
    return new vm.Script(code, options);
  } catch (reason) {
    for (const wrapped of [`(async () => (${code.trim().replace(/;+$/, '')}\n))()`, `(async () => {${code}\n})()`]) {
      try {
        return new vm.Script(wrapped, options);
      } catch {}
    }
    throw reason;
  }
}

function shown(value) {
  const result = { repr: bounded(util.inspect(value, { depth: 4 })) };
  try {
    const text = stringify(value);
    if (text !== undefined && text.length <= LARGEST) result.json = text;
  } catch {}
  return result;
}

function described(error) {
  try {
    return described_well(error);
  } catch {
    return { type: 'Error', message: '<an error that cannot be shown>', traceback: '' };
  }
}

function described_well(error) {
  if (!(error instanceof Error) && typeof error?.stack !== 'string') {
    return { type: typeof error, message: bounded(util.inspect(error)), traceback: '' };
  }
  const frames = String(error.stack).split('\n');
  const own = frames.findIndex((line) => /^ +at .*(node:vm|\[eval\])/.test(line));
  const kept = own < 0 ? frames : frames.slice(0, own);
  return { type: String(error.name), message: bounded(String(error.message)), traceback: bounded(kept.join('\n')) };
}

function bounded(text) {
  return text.length <= LARGEST ? text : `${text.slice(0, LARGEST)}…`;
}

// A program that the code started may have made the pipe one that does not wait.
function end(descriptor, text) {
  let rest = Buffer.from(text);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(descriptor, rest));
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
}

// A file is read by a thread that waits, and for that one a process that exits would wait; a pipe can be read without.
function input() {
  try {
    return new net.Socket({ fd: REQUESTS, readable: true, writable: false });
  } catch {
    return fs.createReadStream(null, { fd: REQUESTS, autoClose: false });
  }
}

async function* requests() {
  let rest = '';
  for await (const chunk of input().setEncoding('latin1')) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop();
    yield* lines;
  }
}

// That `import()` works from code like this is new in Node, which says so; nobody who wrote the code can do anything about it.
const { emitWarning } = process;
process.emitWarning = function (warning, ...rest) {
  if (!String(warning).includes('USE_MAIN_CONTEXT_DEFAULT_LOADER')) emitWarning.call(this, warning, ...rest);
};

for (const event of ['unhandledRejection', 'uncaughtException']) {
  process.on(event, (error) => {
    process.exitCode ??= 1;
    console.error(error);
  });
}

(async () => {
  let hasFailed = false;
  for await (const line of requests()) {
    const [word, code] = line.split(' ');
    const outcome = await outcomeOf(Buffer.from(code, 'base64').toString('utf8'));
    hasFailed = 'error' in outcome;
    end(WARNED, `\x1e${word}\n`);
    end(TOLD, `\x1e${word} told ${Buffer.from(stringify(outcome)).toString('base64')}\n`);
  }
  // What the code still waits for goes on; the process ends when that does.
  if (hasFailed) process.exitCode ??= 1;
})().catch(() => exit(70));
})();
