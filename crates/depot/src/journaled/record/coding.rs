//! Encodes records as bytes, and decodes them.

use bytes::Bytes;
use garret_core::{
    ChangeActor, ChangeKind, Content, ContentAddress, EntryKind, EntryPath, Expected, Follow, Image, MergePoint,
    Mutation, Placed, Point, Precondition, Put, Puts, Restore, Result, Selection, Timestamp, Version, WsPath,
};

use super::{Authorship, Found, FoundEntry, Held, Intent, Known, LoggedStep, Operation, Record, Seen, Thing, Work};
use crate::content::Address;
use crate::journaled::codec::{Sink, Source, odd};
use crate::metadata::{stored_time, time_of};

impl Record {
    /// Appends the encoded record to `sink`.
    pub(in crate::journaled) fn encode(&self, sink: &mut Sink) {
        match self {
            Self::Intent(intent) => {
                sink.byte(1);
                sink.number(intent.id);
                put_authorship(sink, &intent.by);
                put_work(sink, &intent.work);
            }
            Self::Closed { id, seen } => {
                sink.byte(2);
                sink.number(*id);
                sink.each(seen.iter(), |sink, seen| {
                    sink.bytes(&seen.path);
                    sink.maybe(seen.known.as_ref(), put_known);
                });
            }
            Self::Aborted { id } => {
                sink.byte(3);
                sink.number(*id);
            }
            Self::Found(found) => {
                sink.byte(4);
                sink.number(found.id);
                put_authorship(sink, &found.by);
                sink.text(found.kind.as_str());
                sink.flag(found.is_whole);
                sink.each(found.entries.iter(), put_found);
            }
        }
    }

    /// Decodes the record in `bytes`.
    pub(in crate::journaled) fn decode(bytes: Bytes) -> Result<Self> {
        let mut source = Source::new(bytes);
        let tag = source.byte()?;
        let id = source.number()?;
        match tag {
            1 => Ok(Self::Intent(Intent {
                id,
                by: take_authorship(&mut source)?,
                work: take_work(&mut source)?,
            })),
            2 => Ok(Self::Closed {
                id,
                seen: source.each(take_seen)?,
            }),
            3 => Ok(Self::Aborted { id }),
            4 => Ok(Self::Found(Found {
                id,
                by: take_authorship(&mut source)?,
                kind: ChangeKind::parse(&source.text()?).ok_or_else(odd)?,
                is_whole: source.flag()?,
                entries: source.each(take_found)?,
            })),
            _ => Err(odd()),
        }
    }
}

fn put_authorship(sink: &mut Sink, by: &Authorship) {
    sink.text(&by.change);
    sink.number(by.at as u64);
    sink.text(&by.operation);
    sink.text(&by.summary);
    let actor = &by.actor;
    for part in [&actor.agent, &actor.session, &actor.tool_call, &actor.command] {
        sink.maybe(part.as_deref(), Sink::text);
    }
    sink.text(&actor.door);
}

fn take_authorship(source: &mut Source) -> Result<Authorship> {
    Ok(Authorship {
        change: source.text()?,
        at: source.number()? as i64,
        operation: source.text()?,
        summary: source.text()?,
        actor: ChangeActor {
            agent: source.maybe(Source::text)?,
            session: source.maybe(Source::text)?,
            tool_call: source.maybe(Source::text)?,
            command: source.maybe(Source::text)?,
            door: source.text()?,
        },
    })
}

fn put_work(sink: &mut Sink, work: &Work) {
    match work {
        Work::Batch { follow, steps } => {
            sink.byte(1);
            sink.flag(*follow == Follow::Inside);
            sink.each(steps.iter(), put_step);
        }
        Work::Operation(Operation::Undo(selection)) => {
            sink.byte(2);
            put_selection(sink, selection);
        }
        Work::Operation(Operation::Redo) => sink.byte(3),
        Work::Operation(Operation::Restore(Restore::Point { point, path })) => {
            sink.byte(4);
            put_point(sink, point);
            put_path(sink, path);
        }
        Work::Operation(Operation::Restore(Restore::Version { path, version })) => {
            sink.byte(5);
            put_path(sink, path);
            sink.text(version);
        }
        Work::Operation(Operation::Put(puts)) => {
            sink.byte(6);
            put_puts(sink, puts);
        }
    }
}

fn take_work(source: &mut Source) -> Result<Work> {
    let operation = match source.byte()? {
        1 => {
            return Ok(Work::Batch {
                follow: if source.flag()? { Follow::Inside } else { Follow::Never },
                steps: source.each(take_step)?,
            });
        }
        2 => Operation::Undo(take_selection(source)?),
        3 => Operation::Redo,
        4 => Operation::Restore(Restore::Point {
            point: take_point(source)?,
            path: take_path(source)?,
        }),
        5 => Operation::Restore(Restore::Version {
            path: take_path(source)?,
            version: source.text()?,
        }),
        6 => Operation::Put(take_puts(source)?),
        _ => return Err(odd()),
    };
    Ok(Work::Operation(operation))
}

fn put_path(sink: &mut Sink, path: &WsPath) {
    sink.text(path.as_str());
}

fn take_path(source: &mut Source) -> Result<WsPath> {
    WsPath::parse(&source.text()?)
}

fn put_step(sink: &mut Sink, step: &LoggedStep) {
    match &step.mutation {
        Mutation::Write {
            path, mode, parents, ..
        } => {
            sink.byte(1);
            put_path(sink, path);
            sink.maybe(mode.map(u64::from), Sink::number);
            sink.flag(*parents);
        }
        Mutation::Append {
            path, content, create, ..
        } => {
            sink.byte(2);
            put_path(sink, path);
            sink.bytes(content);
            sink.flag(*create);
        }
        Mutation::Remove { path, recursive, .. } => {
            sink.byte(3);
            put_path(sink, path);
            sink.flag(*recursive);
        }
        Mutation::Rename {
            from,
            to,
            overwrite,
            parents,
        } => put_transfer(sink, 4, (from, to), (*overwrite, *parents)),
        Mutation::Copy {
            from,
            to,
            overwrite,
            parents,
        } => put_transfer(sink, 5, (from, to), (*overwrite, *parents)),
        Mutation::MakeDir { path, parents } => {
            sink.byte(6);
            put_path(sink, path);
            sink.flag(*parents);
        }
        Mutation::Symlink { path, target } => {
            sink.byte(7);
            put_path(sink, path);
            sink.text(target);
        }
        Mutation::SetMode { path, mode } => {
            sink.byte(8);
            put_path(sink, path);
            sink.number(u64::from(*mode));
        }
    }
    sink.maybe(step.content.as_ref(), put_held);
}

fn put_transfer(sink: &mut Sink, tag: u8, paths: (&WsPath, &WsPath), room: (bool, bool)) {
    sink.byte(tag);
    put_path(sink, paths.0);
    put_path(sink, paths.1);
    sink.flag(room.0);
    sink.flag(room.1);
}

fn take_step(source: &mut Source) -> Result<LoggedStep> {
    let precondition = Precondition::Any;
    let mutation = match source.byte()? {
        1 => Mutation::Write {
            path: take_path(source)?,
            content: Content::default(),
            precondition,
            mode: source.maybe(take_mode)?,
            parents: source.flag()?,
        },
        2 => Mutation::Append {
            path: take_path(source)?,
            content: source.bytes()?,
            precondition,
            create: source.flag()?,
        },
        3 => Mutation::Remove {
            path: take_path(source)?,
            recursive: source.flag()?,
            precondition,
        },
        4 => Mutation::Rename {
            from: take_path(source)?,
            to: take_path(source)?,
            overwrite: source.flag()?,
            parents: source.flag()?,
        },
        5 => Mutation::Copy {
            from: take_path(source)?,
            to: take_path(source)?,
            overwrite: source.flag()?,
            parents: source.flag()?,
        },
        6 => Mutation::MakeDir {
            path: take_path(source)?,
            parents: source.flag()?,
        },
        7 => Mutation::Symlink {
            path: take_path(source)?,
            target: source.text()?,
        },
        8 => Mutation::SetMode {
            path: take_path(source)?,
            mode: take_mode(source)?,
        },
        _ => return Err(odd()),
    };
    let content = source.maybe(take_held)?;
    Ok(LoggedStep { mutation, content })
}

fn take_mode(source: &mut Source) -> Result<u32> {
    u32::try_from(source.number()?).map_err(|_| odd())
}

fn put_address(sink: &mut Sink, address: &[u8; 32]) {
    sink.0.extend_from_slice(address);
}

fn take_address(source: &mut Source) -> Result<[u8; 32]> {
    let mut address = [0; 32];
    for byte in &mut address {
        *byte = source.byte()?;
    }
    Ok(address)
}

fn put_held(sink: &mut Sink, held: &Held) {
    match held {
        Held::Inline(bytes) => {
            sink.byte(1);
            sink.bytes(bytes);
        }
        Held::Stored { address, size } => {
            sink.byte(2);
            put_address(sink, &address.0);
            sink.number(*size);
        }
    }
}

fn take_held(source: &mut Source) -> Result<Held> {
    match source.byte()? {
        1 => Ok(Held::Inline(source.bytes()?)),
        2 => Ok(Held::Stored {
            address: Address(take_address(source)?),
            size: source.number()?,
        }),
        _ => Err(odd()),
    }
}

fn put_kind(sink: &mut Sink, kind: EntryKind) {
    sink.byte(match kind {
        EntryKind::File => 1,
        EntryKind::Directory => 2,
        EntryKind::Symlink => 3,
        EntryKind::Other => 4,
    });
}

fn take_kind(source: &mut Source) -> Result<EntryKind> {
    match source.byte()? {
        1 => Ok(EntryKind::File),
        2 => Ok(EntryKind::Directory),
        3 => Ok(EntryKind::Symlink),
        4 => Ok(EntryKind::Other),
        _ => Err(odd()),
    }
}

fn put_known(sink: &mut Sink, known: &Known) {
    put_kind(sink, known.kind);
    sink.number(u64::from(known.mode));
    sink.number(known.size);
    sink.maybe(known.target.as_deref(), Sink::text);
    sink.maybe(known.token.as_deref(), Sink::text);
}

fn take_known(source: &mut Source) -> Result<Known> {
    Ok(Known {
        kind: take_kind(source)?,
        mode: take_mode(source)?,
        size: source.number()?,
        target: source.maybe(Source::text)?,
        token: source.maybe(Source::text)?,
    })
}

fn take_seen(source: &mut Source) -> Result<Seen> {
    Ok(Seen {
        path: source.bytes()?.to_vec(),
        known: source.maybe(take_known)?,
    })
}

fn put_found(sink: &mut Sink, entry: &FoundEntry) {
    sink.bytes(&entry.path);
    sink.maybe(entry.thing.as_ref(), |sink, thing| {
        put_known(sink, &thing.known);
        sink.maybe(thing.content.as_ref(), put_held);
    });
}

fn take_found(source: &mut Source) -> Result<FoundEntry> {
    Ok(FoundEntry {
        path: source.bytes()?.to_vec(),
        thing: source.maybe(|source| {
            Ok(Thing {
                known: take_known(source)?,
                content: source.maybe(take_held)?,
            })
        })?,
    })
}

fn put_selection(sink: &mut Sink, selection: &Selection) {
    match selection {
        Selection::Last(count) => {
            sink.byte(1);
            sink.number(*count as u64);
        }
        Selection::Change(text) => put_tagged(sink, 2, text),
        Selection::Session(text) => put_tagged(sink, 3, text),
        Selection::ToolCall { call, session: None } => put_tagged(sink, 4, call),
        Selection::ToolCall {
            call,
            session: Some(session),
        } => {
            put_tagged(sink, 6, call);
            sink.text(session);
        }
        Selection::Changes(ids) => {
            sink.byte(5);
            sink.each(ids.iter(), |sink, id| sink.text(id));
        }
    }
}

fn put_tagged(sink: &mut Sink, tag: u8, text: &str) {
    sink.byte(tag);
    sink.text(text);
}

fn take_selection(source: &mut Source) -> Result<Selection> {
    match source.byte()? {
        1 => Ok(Selection::Last(usize::try_from(source.number()?).map_err(|_| odd())?)),
        2 => source.text().map(Selection::Change),
        3 => source.text().map(Selection::Session),
        4 => Ok(Selection::ToolCall {
            call: source.text()?,
            session: None,
        }),
        5 => source.each(Source::text).map(Selection::Changes),
        6 => Ok(Selection::ToolCall {
            call: source.text()?,
            session: Some(source.text()?),
        }),
        _ => Err(odd()),
    }
}

fn put_point(sink: &mut Sink, point: &Point) {
    match point {
        Point::Now => sink.byte(1),
        Point::Change(text) => put_tagged(sink, 2, text),
        Point::Number(number) => {
            sink.byte(3);
            sink.number(*number);
        }
        Point::Snapshot(text) => put_tagged(sink, 4, text),
        Point::Time(time) => {
            sink.byte(5);
            sink.number(time.as_microsecond() as u64);
        }
        Point::Named(text) => put_tagged(sink, 6, text),
    }
}

fn take_point(source: &mut Source) -> Result<Point> {
    match source.byte()? {
        1 => Ok(Point::Now),
        2 => source.text().map(Point::Change),
        3 => source.number().map(Point::Number),
        4 => source.text().map(Point::Snapshot),
        5 => Timestamp::from_microsecond(source.number()? as i64)
            .map(Point::Time)
            .map_err(|_| odd()),
        6 => source.text().map(Point::Named),
        _ => Err(odd()),
    }
}

fn put_image(sink: &mut Sink, image: &Image) {
    put_kind(sink, image.kind);
    sink.number(u64::from(image.mode));
    sink.number(image.size);
    sink.maybe(image.version.as_ref(), |sink, version| sink.text(version.as_str()));
    sink.maybe(image.target.as_deref(), Sink::text);
    sink.maybe(image.content.as_ref(), |sink, address| put_address(sink, &address.0));
}

fn take_image(source: &mut Source) -> Result<Image> {
    Ok(Image {
        kind: take_kind(source)?,
        mode: take_mode(source)?,
        size: source.number()?,
        version: source.maybe(Source::text)?.map(Version::new),
        target: source.maybe(Source::text)?,
        content: source.maybe(take_address)?.map(ContentAddress),
    })
}

fn put_puts(sink: &mut Sink, puts: &Puts) {
    sink.each(puts.puts.iter(), |sink, put| {
        sink.bytes(put.path.as_bytes());
        put_expected(sink, &put.expected);
        match &put.placed {
            Placed::Nothing => sink.byte(1),
            Placed::Image(image) => {
                sink.byte(2);
                put_image(sink, image);
            }
            Placed::Directory { mode } => {
                sink.byte(3);
                sink.number(u64::from(*mode));
            }
            Placed::Symlink { target } => {
                sink.byte(4);
                sink.text(target);
            }
            Placed::File { .. } => unreachable!("the content of a put is in the depot before it is written down"),
        }
    });
    sink.each(puts.moves.iter(), |sink, (from, to)| {
        sink.bytes(from.as_bytes());
        sink.bytes(to.as_bytes());
    });
    sink.maybe(puts.merged.as_ref(), |sink, merged| {
        sink.text(&merged.workspace);
        sink.number(merged.change);
    });
}

fn put_expected(sink: &mut Sink, expected: &Expected) {
    match expected {
        Expected::Is(image) => {
            sink.byte(1);
            sink.maybe(image.as_ref(), put_image);
        }
        Expected::UnchangedSince { change, at } => {
            sink.byte(2);
            sink.number(*change);
            sink.number(stored_time(*at).cast_unsigned());
        }
    }
}

fn take_expected(source: &mut Source) -> Result<Expected> {
    match source.byte()? {
        1 => Ok(Expected::Is(source.maybe(take_image)?)),
        2 => Ok(Expected::UnchangedSince {
            change: source.number()?,
            at: time_of(source.number()?.cast_signed()),
        }),
        _ => Err(odd()),
    }
}

fn take_entry_path(source: &mut Source) -> Result<EntryPath> {
    Ok(EntryPath::from_bytes(source.bytes()?.to_vec()))
}

fn take_put(source: &mut Source) -> Result<Put> {
    Ok(Put {
        path: take_entry_path(source)?,
        expected: take_expected(source)?,
        placed: match source.byte()? {
            1 => Placed::Nothing,
            2 => Placed::Image(take_image(source)?),
            3 => Placed::Directory {
                mode: take_mode(source)?,
            },
            4 => Placed::Symlink { target: source.text()? },
            _ => return Err(odd()),
        },
    })
}

fn take_puts(source: &mut Source) -> Result<Puts> {
    Ok(Puts {
        puts: source.each(take_put)?,
        moves: source.each(|source| Ok((take_entry_path(source)?, take_entry_path(source)?)))?,
        merged: source.maybe(|source| {
            Ok(MergePoint {
                workspace: source.text()?,
                change: source.number()?,
            })
        })?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_is_read_as_it_was_written() {
        let call = |session: Option<&str>| Selection::ToolCall {
            call: "c1".into(),
            session: session.map(str::to_owned),
        };
        let selections = [
            Selection::Last(3),
            Selection::Change("id".into()),
            Selection::Session("s".into()),
            call(None),
            call(Some("s")),
            Selection::Changes(vec!["one".into(), "two".into()]),
        ];
        for selection in selections {
            let mut sink = Sink::default();
            put_selection(&mut sink, &selection);
            let read = take_selection(&mut Source::new(sink.0.into()));
            assert_eq!(read.unwrap(), selection);
        }
    }

    #[test]
    fn a_tool_call_that_was_written_when_no_session_belonged_to_it_is_still_read() {
        let mut sink = Sink::default();
        put_tagged(&mut sink, 4, "c1");
        let read = take_selection(&mut Source::new(sink.0.into())).unwrap();
        let (call, session) = ("c1".to_owned(), None);
        assert_eq!(read, Selection::ToolCall { call, session });
    }
}
