//! Encodes records as bytes, and decodes them.

use bytes::Bytes;
use garret_core::{
    Actor, ChangeKind, Content, ContentAddress, EntryKind, EntryPath, Follow, HistoryOperation, MergePoint, Mutation,
    PathExpectation, PathImage, PathPut, PlacedEntry, Point, Precondition, PutBatch, RestoreTarget, Result, Timestamp,
    UndoSelection, Version, WsPath,
};

use super::{
    CapturedEntry, ChangeAuthorship, ChangeIntent, FoundChange, FoundEntry, IntentWork, KnownEntry, LogRecord,
    LoggedStep, ObservedEntry, RecordContent,
};
use crate::content::PieceAddress;
use crate::metadata::{stored_time, time_of};
use crate::outside_files::codec::{RecordSink, RecordSource, invalid_record};

impl LogRecord {
    /// Appends the encoded record to `sink`.
    pub(in crate::outside_files) fn encode(&self, sink: &mut RecordSink) {
        match self {
            Self::Intent(intent) => {
                sink.put_byte(1);
                sink.put_number(intent.id);
                put_authorship(sink, &intent.by);
                put_work(sink, &intent.work);
            }
            Self::Closed { id, seen } => {
                sink.put_byte(2);
                sink.put_number(*id);
                sink.put_each(seen.iter(), |sink, seen| {
                    sink.put_bytes(&seen.path);
                    sink.put_optional(seen.known.as_ref(), put_known);
                });
            }
            Self::Aborted { id } => {
                sink.put_byte(3);
                sink.put_number(*id);
            }
            Self::Found(found) => {
                sink.put_byte(4);
                sink.put_number(found.id);
                put_authorship(sink, &found.by);
                sink.put_text(found.kind.as_str());
                sink.put_flag(found.is_whole);
                sink.put_each(found.entries.iter(), put_found);
            }
        }
    }

    /// Decodes the record in `bytes`.
    pub(in crate::outside_files) fn decode(bytes: Bytes) -> Result<Self> {
        let mut source = RecordSource::new(bytes);
        let tag = source.take_byte()?;
        let id = source.take_number()?;
        match tag {
            1 => Ok(Self::Intent(ChangeIntent {
                id,
                by: take_authorship(&mut source)?,
                work: take_work(&mut source)?,
            })),
            2 => Ok(Self::Closed {
                id,
                seen: source.take_each(take_seen)?,
            }),
            3 => Ok(Self::Aborted { id }),
            4 => Ok(Self::Found(FoundChange {
                id,
                by: take_authorship(&mut source)?,
                kind: ChangeKind::parse(&source.take_text()?).ok_or_else(invalid_record)?,
                is_whole: source.take_flag()?,
                entries: source.take_each(take_found)?,
            })),
            _ => Err(invalid_record()),
        }
    }
}

fn put_authorship(sink: &mut RecordSink, by: &ChangeAuthorship) {
    sink.put_text(&by.change);
    sink.put_number(by.at as u64);
    sink.put_text(&by.operation);
    sink.put_text(&by.summary);
    let actor = &by.actor;
    for part in [&actor.agent, &actor.session, &actor.tool_call, &actor.command] {
        sink.put_optional(part.as_deref(), RecordSink::put_text);
    }
    sink.put_text(&actor.door);
}

fn take_authorship(source: &mut RecordSource) -> Result<ChangeAuthorship> {
    Ok(ChangeAuthorship {
        change: source.take_text()?,
        at: source.take_number()? as i64,
        operation: source.take_text()?,
        summary: source.take_text()?,
        actor: Actor {
            agent: source.take_optional(RecordSource::take_text)?,
            session: source.take_optional(RecordSource::take_text)?,
            tool_call: source.take_optional(RecordSource::take_text)?,
            command: source.take_optional(RecordSource::take_text)?,
            door: source.take_text()?.into(),
        },
    })
}

fn put_work(sink: &mut RecordSink, work: &IntentWork) {
    match work {
        IntentWork::Batch { follow, steps } => {
            sink.put_byte(1);
            sink.put_flag(*follow == Follow::Inside);
            sink.put_each(steps.iter(), put_step);
        }
        IntentWork::Operation(HistoryOperation::Undo(selection)) => {
            sink.put_byte(2);
            put_selection(sink, selection);
        }
        IntentWork::Operation(HistoryOperation::Redo) => sink.put_byte(3),
        IntentWork::Operation(HistoryOperation::Restore(RestoreTarget::Point { point, path })) => {
            sink.put_byte(4);
            put_point(sink, point);
            put_path(sink, path);
        }
        IntentWork::Operation(HistoryOperation::Restore(RestoreTarget::Version { path, version })) => {
            sink.put_byte(5);
            put_path(sink, path);
            sink.put_text(version);
        }
        IntentWork::Put(puts) => {
            sink.put_byte(7);
            put_puts(sink, puts);
            sink.put_text(puts.kind.as_str());
            sink.put_each(puts.reverses.iter(), |sink, seq| sink.put_number(*seq));
        }
    }
}

fn take_work(source: &mut RecordSource) -> Result<IntentWork> {
    let operation = match source.take_byte()? {
        1 => {
            return Ok(IntentWork::Batch {
                follow: if source.take_flag()? {
                    Follow::Inside
                } else {
                    Follow::Never
                },
                steps: source.take_each(take_step)?,
            });
        }
        2 => HistoryOperation::Undo(take_selection(source)?),
        3 => HistoryOperation::Redo,
        4 => HistoryOperation::Restore(RestoreTarget::Point {
            point: take_point(source)?,
            path: take_path(source)?,
        }),
        5 => HistoryOperation::Restore(RestoreTarget::Version {
            path: take_path(source)?,
            version: source.take_text()?,
        }),
        6 => return Ok(IntentWork::Put(take_puts(source)?)),
        7 => {
            let puts = take_puts(source)?;
            let kind = ChangeKind::parse(&source.take_text()?).ok_or_else(invalid_record)?;
            let reverses = source.take_each(RecordSource::take_number)?;
            return Ok(IntentWork::Put(PutBatch { kind, reverses, ..puts }));
        }
        _ => return Err(invalid_record()),
    };
    Ok(IntentWork::Operation(operation))
}

fn put_path(sink: &mut RecordSink, path: &WsPath) {
    sink.put_text(path.as_str());
}

fn take_path(source: &mut RecordSource) -> Result<WsPath> {
    WsPath::parse(&source.take_text()?)
}

fn put_step(sink: &mut RecordSink, step: &LoggedStep) {
    match &step.mutation {
        Mutation::Write {
            path, mode, parents, ..
        } => {
            sink.put_byte(1);
            put_path(sink, path);
            sink.put_optional(mode.map(u64::from), RecordSink::put_number);
            sink.put_flag(*parents);
        }
        Mutation::Append {
            path, content, create, ..
        } => {
            sink.put_byte(2);
            put_path(sink, path);
            sink.put_bytes(content);
            sink.put_flag(*create);
        }
        Mutation::Remove { path, recursive, .. } => {
            sink.put_byte(3);
            put_path(sink, path);
            sink.put_flag(*recursive);
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
            sink.put_byte(6);
            put_path(sink, path);
            sink.put_flag(*parents);
        }
        Mutation::Symlink { path, target } => {
            sink.put_byte(7);
            put_path(sink, path);
            sink.put_text(target);
        }
        Mutation::SetMode { path, mode } => {
            sink.put_byte(8);
            put_path(sink, path);
            sink.put_number(u64::from(*mode));
        }
    }
    sink.put_optional(step.content.as_ref(), put_held);
}

fn put_transfer(sink: &mut RecordSink, tag: u8, paths: (&WsPath, &WsPath), room: (bool, bool)) {
    sink.put_byte(tag);
    put_path(sink, paths.0);
    put_path(sink, paths.1);
    sink.put_flag(room.0);
    sink.put_flag(room.1);
}

fn take_step(source: &mut RecordSource) -> Result<LoggedStep> {
    let precondition = Precondition::Any;
    let mutation = match source.take_byte()? {
        1 => Mutation::Write {
            path: take_path(source)?,
            content: Content::default(),
            precondition,
            mode: source.take_optional(take_mode)?,
            parents: source.take_flag()?,
        },
        2 => Mutation::Append {
            path: take_path(source)?,
            content: source.take_bytes()?,
            precondition,
            create: source.take_flag()?,
        },
        3 => Mutation::Remove {
            path: take_path(source)?,
            recursive: source.take_flag()?,
            precondition,
        },
        4 => Mutation::Rename {
            from: take_path(source)?,
            to: take_path(source)?,
            overwrite: source.take_flag()?,
            parents: source.take_flag()?,
        },
        5 => Mutation::Copy {
            from: take_path(source)?,
            to: take_path(source)?,
            overwrite: source.take_flag()?,
            parents: source.take_flag()?,
        },
        6 => Mutation::MakeDir {
            path: take_path(source)?,
            parents: source.take_flag()?,
        },
        7 => Mutation::Symlink {
            path: take_path(source)?,
            target: source.take_text()?,
        },
        8 => Mutation::SetMode {
            path: take_path(source)?,
            mode: take_mode(source)?,
        },
        _ => return Err(invalid_record()),
    };
    let content = source.take_optional(take_held)?;
    Ok(LoggedStep { mutation, content })
}

fn take_mode(source: &mut RecordSource) -> Result<u32> {
    u32::try_from(source.take_number()?).map_err(|_| invalid_record())
}

fn put_address(sink: &mut RecordSink, address: &[u8; 32]) {
    sink.0.extend_from_slice(address);
}

fn take_address(source: &mut RecordSource) -> Result<[u8; 32]> {
    let mut address = [0; 32];
    for byte in &mut address {
        *byte = source.take_byte()?;
    }
    Ok(address)
}

fn put_held(sink: &mut RecordSink, held: &RecordContent) {
    match held {
        RecordContent::Inline(bytes) => {
            sink.put_byte(1);
            sink.put_bytes(bytes);
        }
        RecordContent::Stored { address, size } => {
            sink.put_byte(2);
            put_address(sink, &address.0);
            sink.put_number(*size);
        }
    }
}

fn take_held(source: &mut RecordSource) -> Result<RecordContent> {
    match source.take_byte()? {
        1 => Ok(RecordContent::Inline(source.take_bytes()?)),
        2 => Ok(RecordContent::Stored {
            address: PieceAddress(take_address(source)?),
            size: source.take_number()?,
        }),
        _ => Err(invalid_record()),
    }
}

fn put_kind(sink: &mut RecordSink, kind: EntryKind) {
    sink.put_byte(match kind {
        EntryKind::File => 1,
        EntryKind::Directory => 2,
        EntryKind::Symlink => 3,
        EntryKind::Other => 4,
    });
}

fn take_kind(source: &mut RecordSource) -> Result<EntryKind> {
    match source.take_byte()? {
        1 => Ok(EntryKind::File),
        2 => Ok(EntryKind::Directory),
        3 => Ok(EntryKind::Symlink),
        4 => Ok(EntryKind::Other),
        _ => Err(invalid_record()),
    }
}

fn put_known(sink: &mut RecordSink, known: &KnownEntry) {
    put_kind(sink, known.kind);
    sink.put_number(u64::from(known.mode));
    sink.put_number(known.size);
    sink.put_optional(known.target.as_deref(), RecordSink::put_text);
    sink.put_optional(known.token.as_deref(), RecordSink::put_text);
}

fn take_known(source: &mut RecordSource) -> Result<KnownEntry> {
    Ok(KnownEntry {
        kind: take_kind(source)?,
        mode: take_mode(source)?,
        size: source.take_number()?,
        target: source.take_optional(RecordSource::take_text)?,
        token: source.take_optional(RecordSource::take_text)?,
    })
}

fn take_seen(source: &mut RecordSource) -> Result<ObservedEntry> {
    Ok(ObservedEntry {
        path: source.take_bytes()?.to_vec(),
        known: source.take_optional(take_known)?,
    })
}

fn put_found(sink: &mut RecordSink, entry: &FoundEntry) {
    sink.put_bytes(&entry.path);
    sink.put_optional(entry.thing.as_ref(), |sink, thing| {
        put_known(sink, &thing.known);
        sink.put_optional(thing.content.as_ref(), put_held);
    });
}

fn take_found(source: &mut RecordSource) -> Result<FoundEntry> {
    Ok(FoundEntry {
        path: source.take_bytes()?.to_vec(),
        thing: source.take_optional(|source| {
            Ok(CapturedEntry {
                known: take_known(source)?,
                content: source.take_optional(take_held)?,
            })
        })?,
    })
}

fn put_selection(sink: &mut RecordSink, selection: &UndoSelection) {
    match selection {
        UndoSelection::Last(count) => {
            sink.put_byte(1);
            sink.put_number(*count as u64);
        }
        UndoSelection::Change(text) => put_tagged(sink, 2, text),
        UndoSelection::Session(text) => put_tagged(sink, 3, text),
        UndoSelection::ToolCall { call, session: None } => put_tagged(sink, 4, call),
        UndoSelection::ToolCall {
            call,
            session: Some(session),
        } => {
            put_tagged(sink, 6, call);
            sink.put_text(session);
        }
        UndoSelection::Changes { chosen, stepped_over } => {
            sink.put_byte(7);
            for ids in [chosen, stepped_over] {
                sink.put_each(ids.iter(), |sink, id| sink.put_text(id));
            }
        }
    }
}

fn put_tagged(sink: &mut RecordSink, tag: u8, text: &str) {
    sink.put_byte(tag);
    sink.put_text(text);
}

fn take_selection(source: &mut RecordSource) -> Result<UndoSelection> {
    match source.take_byte()? {
        1 => Ok(UndoSelection::Last(
            usize::try_from(source.take_number()?).map_err(|_| invalid_record())?,
        )),
        2 => source.take_text().map(UndoSelection::Change),
        3 => source.take_text().map(UndoSelection::Session),
        4 => Ok(UndoSelection::ToolCall {
            call: source.take_text()?,
            session: None,
        }),
        5 => Ok(UndoSelection::Changes {
            chosen: source.take_each(RecordSource::take_text)?,
            stepped_over: Vec::new(),
        }),
        6 => Ok(UndoSelection::ToolCall {
            call: source.take_text()?,
            session: Some(source.take_text()?),
        }),
        7 => Ok(UndoSelection::Changes {
            chosen: source.take_each(RecordSource::take_text)?,
            stepped_over: source.take_each(RecordSource::take_text)?,
        }),
        _ => Err(invalid_record()),
    }
}

fn put_point(sink: &mut RecordSink, point: &Point) {
    match point {
        Point::Now => sink.put_byte(1),
        Point::Change(text) => put_tagged(sink, 2, text),
        Point::Number(number) => {
            sink.put_byte(3);
            sink.put_number(*number);
        }
        Point::Snapshot(text) => put_tagged(sink, 4, text),
        Point::Time(time) => {
            sink.put_byte(5);
            sink.put_number(time.as_microsecond() as u64);
        }
        Point::Named(text) => put_tagged(sink, 6, text),
    }
}

fn take_point(source: &mut RecordSource) -> Result<Point> {
    match source.take_byte()? {
        1 => Ok(Point::Now),
        2 => source.take_text().map(Point::Change),
        3 => source.take_number().map(Point::Number),
        4 => source.take_text().map(Point::Snapshot),
        5 => Timestamp::from_microsecond(source.take_number()? as i64)
            .map(Point::Time)
            .map_err(|_| invalid_record()),
        6 => source.take_text().map(Point::Named),
        _ => Err(invalid_record()),
    }
}

fn put_image(sink: &mut RecordSink, image: &PathImage) {
    put_kind(sink, image.kind);
    sink.put_number(u64::from(image.mode));
    sink.put_number(image.size);
    sink.put_optional(image.version.as_ref(), |sink, version| sink.put_text(version.as_str()));
    sink.put_optional(image.target.as_deref(), RecordSink::put_text);
    sink.put_optional(image.content.as_ref(), |sink, address| put_address(sink, &address.0));
}

fn take_image(source: &mut RecordSource) -> Result<PathImage> {
    Ok(PathImage {
        kind: take_kind(source)?,
        mode: take_mode(source)?,
        size: source.take_number()?,
        version: source.take_optional(RecordSource::take_text)?.map(Version::new),
        target: source.take_optional(RecordSource::take_text)?,
        content: source.take_optional(take_address)?.map(ContentAddress),
    })
}

fn put_puts(sink: &mut RecordSink, puts: &PutBatch) {
    sink.put_each(puts.puts.iter(), |sink, put| {
        sink.put_bytes(put.path.as_bytes());
        put_expected(sink, &put.expected);
        match &put.placed {
            PlacedEntry::Nothing => sink.put_byte(1),
            PlacedEntry::Image(image) => {
                sink.put_byte(2);
                put_image(sink, image);
            }
            PlacedEntry::Directory { mode } => {
                sink.put_byte(3);
                sink.put_number(u64::from(*mode));
            }
            PlacedEntry::Symlink { target } => {
                sink.put_byte(4);
                sink.put_text(target);
            }
            PlacedEntry::File { .. } => unreachable!("the content of a put is in the depot before it is written down"),
        }
    });
    sink.put_each(puts.moves.iter(), |sink, (from, to)| {
        sink.put_bytes(from.as_bytes());
        sink.put_bytes(to.as_bytes());
    });
    sink.put_optional(puts.merged.as_ref(), |sink, merged| {
        sink.put_text(&merged.workspace);
        sink.put_number(merged.change);
    });
}

fn put_expected(sink: &mut RecordSink, expected: &PathExpectation) {
    match expected {
        PathExpectation::Is(image) => {
            sink.put_byte(1);
            sink.put_optional(image.as_ref(), put_image);
        }
        PathExpectation::UnchangedSince { change, at } => {
            sink.put_byte(2);
            sink.put_number(*change);
            sink.put_number(stored_time(*at).cast_unsigned());
        }
    }
}

fn take_expected(source: &mut RecordSource) -> Result<PathExpectation> {
    match source.take_byte()? {
        1 => Ok(PathExpectation::Is(source.take_optional(take_image)?)),
        2 => Ok(PathExpectation::UnchangedSince {
            change: source.take_number()?,
            at: time_of(source.take_number()?.cast_signed()),
        }),
        _ => Err(invalid_record()),
    }
}

fn take_entry_path(source: &mut RecordSource) -> Result<EntryPath> {
    Ok(EntryPath::from_bytes(source.take_bytes()?.to_vec()))
}

fn take_put(source: &mut RecordSource) -> Result<PathPut> {
    Ok(PathPut {
        path: take_entry_path(source)?,
        expected: take_expected(source)?,
        placed: match source.take_byte()? {
            1 => PlacedEntry::Nothing,
            2 => PlacedEntry::Image(take_image(source)?),
            3 => PlacedEntry::Directory {
                mode: take_mode(source)?,
            },
            4 => PlacedEntry::Symlink {
                target: source.take_text()?,
            },
            _ => return Err(invalid_record()),
        },
    })
}

fn take_puts(source: &mut RecordSource) -> Result<PutBatch> {
    Ok(PutBatch {
        puts: source.take_each(take_put)?,
        moves: source.take_each(|source| Ok((take_entry_path(source)?, take_entry_path(source)?)))?,
        merged: source.take_optional(|source| {
            Ok(MergePoint {
                workspace: source.take_text()?,
                change: source.take_number()?,
            })
        })?,
        ..PutBatch::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_is_read_as_it_was_written() {
        let call = |session: Option<&str>| UndoSelection::ToolCall {
            call: "c1".into(),
            session: session.map(str::to_owned),
        };
        let selections = [
            UndoSelection::Last(3),
            UndoSelection::Change("id".into()),
            UndoSelection::Session("s".into()),
            call(None),
            call(Some("s")),
            UndoSelection::Changes {
                chosen: vec!["one".into(), "two".into()],
                stepped_over: vec!["3".into()],
            },
        ];
        for selection in selections {
            let mut sink = RecordSink::default();
            put_selection(&mut sink, &selection);
            let read = take_selection(&mut RecordSource::new(sink.0.into()));
            assert_eq!(read.unwrap(), selection);
        }
    }

    #[test]
    fn a_tool_call_that_was_written_when_no_session_belonged_to_it_is_still_read() {
        let mut sink = RecordSink::default();
        put_tagged(&mut sink, 4, "c1");
        let read = take_selection(&mut RecordSource::new(sink.0.into())).unwrap();
        let (call, session) = ("c1".to_owned(), None);
        assert_eq!(read, UndoSelection::ToolCall { call, session });
    }
}
