//! Faults that the simulator must find.

/// A fault: a piece of source and what takes its place.
#[derive(Debug)]
pub(super) struct Mutant {
    /// What is wrong then.
    pub(super) name: &'static str,
    /// The file, from the repository's root.
    pub(super) file: &'static str,
    /// The text, which is in the file exactly once.
    pub(super) old: &'static str,
    /// What takes its place.
    pub(super) new: &'static str,
}

/// Every fault.
pub(super) const TABLE: &[Mutant] = &[
    Mutant {
        name: "an event that comes twice enters twice",
        file: "crates/session/src/recent.rs",
        old: "key.source == source && key.id == *id",
        new: "key.source == source && key.id == *id && false",
    },
    Mutant {
        name: "a child's place is not given back",
        file: "crates/runtime/src/limits.rs",
        old: "self.0.running.fetch_sub(1, Ordering::AcqRel);",
        new: "self.0.running.fetch_sub(0, Ordering::AcqRel);",
    },
    Mutant {
        name: "one child more than may runs at once",
        file: "crates/runtime/src/limits.rs",
        old: "(count < limit).then_some(count + 1)",
        new: "(count <= limit).then_some(count + 1)",
    },
    Mutant {
        name: "children are spawned while a run is being stopped",
        file: "crates/runtime/src/run/host.rs",
        old: "if self.identity.control.is_stopping() {",
        new: "self.identity.shared.slots.set_stopping(false);\n        if false {",
    },
    Mutant {
        name: "children are spawned by a run that is being dropped",
        file: "crates/runtime/src/session/driver.rs",
        old: "are gone before the stream says so.\n        control.cancel();",
        new: "are gone before the stream says so.",
    },
    Mutant {
        name: "a child that panics says nothing more",
        file: "crates/runtime/src/subagent/child.rs",
        old: "let error = ErrorInfo::new(ErrorType::INTERNAL, text);\n                    cut(this.work.as_mut(), Outcome::Failed, Some(error));",
        new: "drop(text);\n                    *this.is_ended = true;\n                    return Poll::Ready(None);",
    },
    Mutant {
        name: "a tool's panic is not caught",
        file: "crates/pipeline/src/call_tool.rs",
        old: "let yielded = match catch(|| polled = self.stream.as_mut().poll_next(cx)) {",
        new: "polled = self.stream.as_mut().poll_next(cx);\n            let yielded = match Ok::<_, String>(()) {",
    },
    Mutant {
        name: "results stand in the order in which calls end",
        file: "crates/session/src/layout.rs",
        old: "while let Some(&next) = turn.calls.get(turn.results)\n            && let Some(result) = self.calls.get_mut(next).and_then(|call| call.apart.take())",
        new: "while let Some(result) = turn.calls.iter().find_map(|&next| self.calls.get_mut(next)?.apart.take())",
    },
    Mutant {
        name: "a stream that gave an item is not polled again",
        file: "crates/pipeline/src/merge.rs",
        old: "if this.line.len() > 1 {\n                            this.line.rotate_left(1);\n                        }",
        new: "this.line.pop_front();",
    },
    Mutant {
        name: "a wake does not reach the merge's reader",
        file: "crates/pipeline/src/merge.rs",
        old: "            self.woken.push(self.ticket);\n            self.woken.reader.wake();",
        new: "            self.woken.push(self.ticket);",
    },
    Mutant {
        name: "what is beneath a cancelled run has completed",
        file: "crates/session/src/ending.rs",
        old: "            Self::new(Outcome::Interrupted)\n        } else {",
        new: "            Self::new(Outcome::Completed)\n        } else {",
    },
    Mutant {
        name: "a run says no terminal of its own",
        file: "crates/runtime/src/run/machine.rs",
        old: "            self.push(complete);\n            self.result",
        new: "            if complete.outcome != Outcome::Completed {\n                self.push(complete);\n            }\n            self.result",
    },
    Mutant {
        name: "a child that timed out has completed",
        file: "crates/runtime/src/subagent/child.rs",
        old: "Outcome::TimedOut, Some(error)",
        new: "Outcome::Completed, Some(error)",
    },
    Mutant {
        name: "a deadline is half as long",
        file: "crates/runtime/src/subagent/deadline.rs",
        old: "left: Left::Running(Box::pin(tokio::time::sleep(timeout)))",
        new: "left: Left::Running(Box::pin(tokio::time::sleep(timeout / 2)))",
    },
    Mutant {
        name: "a model is given all the time in the world",
        file: "crates/runtime/src/run/stream.rs",
        old: "tokio::time::sleep(agent.limits.model_call)",
        new: "tokio::time::sleep(agent.limits.model_call * 100)",
    },
    Mutant {
        name: "one of the log's batches is not appended",
        file: "crates/runtime/src/session/driver.rs",
        old: "|| self.core.log.append(&self.out)",
        new: "|| if last % 50 == 0 { Ok(()) } else { self.core.log.append(&self.out) }",
    },
    Mutant {
        name: "a reader begins with an event that it had",
        file: "crates/runtime/src/session/reader.rs",
        old: "Box::pin(next(Arc::clone(&self.core), self.after))",
        new: "Box::pin(next(Arc::clone(&self.core), self.after - u64::from(self.after % 7 == 6)))",
    },
    Mutant {
        name: "a reader without room is waited for for ever",
        file: "crates/runtime/src/session/driver.rs",
        old: "tokio::time::timeout(self.core.limits.stall, has_room)",
        new: "tokio::time::timeout(self.core.limits.stall * 10_000, has_room)",
    },
    Mutant {
        name: "a result that is an error is said to be a success",
        file: "crates/pipeline/src/execute_call.rs",
        old: "ToolResultEnd::new(&self.caller.reply_id, &self.call_id, response.state)",
        new: "ToolResultEnd::new(&self.caller.reply_id, &self.call_id, ToolResultState::Success)",
    },
    Mutant {
        name: "a tool may speak for a sibling's child",
        file: "crates/pipeline/src/gate.rs",
        old: "return Err(\"it is of no child of this call\");",
        new: "return Ok(());",
    },
    Mutant {
        name: "a tool may say what only its caller may",
        file: "crates/pipeline/src/gate.rs",
        old: "Err(\"only its caller itself may say this\")",
        new: "Ok(None)",
    },
    Mutant {
        name: "calls that must run alone do not",
        file: "crates/pipeline/src/execute_calls.rs",
        old: "catch(ask).unwrap_or(false)",
        new: "catch(ask).unwrap_or(false) && false",
    },
    Mutant {
        name: "what a tool emits just before its end is lost",
        file: "crates/pipeline/src/call_tool.rs",
        old: "            self.accept_late(item);",
        new: "            drop(item);",
    },
    Mutant {
        name: "what a tool says after its last chunk counts",
        file: "crates/pipeline/src/accumulate.rs",
        old: "if self.is_complete {\n            return Accepted::AfterTheLast;",
        new: "if self.is_complete && self.bytes > 1_000_000 {\n            return Accepted::AfterTheLast;",
    },
    Mutant {
        name: "a tool's output has no bound",
        file: "crates/pipeline/src/accumulate.rs",
        old: "if bytes > limit {",
        new: "if bytes > limit.saturating_mul(100) {",
    },
    Mutant {
        name: "a session's calls have the same id twice",
        file: "crates/runtime/src/run/calls.rs",
        old: "while !self.used.insert(id.clone()) {",
        new: "while !self.used.insert(id.clone()) && number < 1 {",
    },
    Mutant {
        name: "a prompt's conversation is forgotten",
        file: "crates/runtime/src/session/driver.rs",
        old: "let history = self.core.with_processor(|processor| processor.messages().to_vec());",
        new: "let history = Vec::new();",
    },
    Mutant {
        name: "a cancel is not noticed while the run is busy",
        file: "crates/runtime/src/session/driver.rs",
        old: "if has_begun && stopped.as_mut().poll(cx).is_ready() {",
        new: "if has_begun && self.out_bytes == usize::MAX && stopped.as_mut().poll(cx).is_ready() {",
    },
    Mutant {
        name: "a run that was stopped is kept",
        file: "crates/runtime/src/session/driver.rs",
        old: "|| drop(run)",
        new: "|| std::mem::forget(run)",
    },
    Mutant {
        name: "what comes after the end of a run enters",
        file: "crates/session/src/fallback.rs",
        old: "if stated_run > runs {",
        new: "if stated_run > runs || self.run(node).is_none() {",
    },
    Mutant {
        name: "a child that nobody announced is not announced",
        file: "crates/session/src/fallback.rs",
        old: "self.admit_announcement(Arc::new(spawn), None, io);",
        new: "drop(spawn);",
    },
    Mutant {
        name: "a call that may not run does",
        file: "crates/runtime/src/question/confirm.rs",
        old: "Permission::Deny(why) => denied(format!(\"`{}` may not run: {why}\", call.name)),",
        new: "Permission::Deny(_) => next.run(call, context),",
    },
    Mutant {
        name: "a child's time runs while somebody is asked",
        file: "crates/runtime/src/subagent/child.rs",
        old: "deadline.poll(this.control.is_asking(cx.waker()), cx).is_ready()",
        new: "deadline.poll(false, cx).is_ready()",
    },
    Mutant {
        name: "one of the things said to a run is not read",
        file: "crates/runtime/src/run/machine.rs",
        old: "in self.identity.control.inbox.take() {",
        new: "in self.identity.control.inbox.take().into_iter().skip(1) {",
    },
    Mutant {
        name: "an agent is told of a background child again and again",
        file: "crates/runtime/src/task/registry.rs",
        old: "                untold.append(&mut task.untold);",
        new: "                for told in &task.untold {\n                    let (info, result) = (told.info.clone(), told.result.clone());\n                    untold.push(Untold { info, result, bytes: 0, number: told.number, given_by: None });\n                }",
    },
    Mutant {
        name: "what a background child was about to announce keeps its place",
        file: "crates/runtime/src/task/registry.rs",
        old: "get_mut(number).filter(|task| task.is_unannounced()) else {",
        new: "get_mut(number).filter(|task| task.is_unannounced() && number > 100_000) else {",
    },
    Mutant {
        name: "a background child is not waited for while its announcement is on its way",
        file: "crates/runtime/src/task/registry.rs",
        old: "            is_waited_for: new.is_waited_for,",
        new: "            is_waited_for: false,",
    },
    Mutant {
        name: "what a background child says after its end enters",
        file: "crates/runtime/src/session/driver.rs",
        old: "if !self.has_ended(task) {",
        new: "if !self.has_ended(task) || true {",
    },
    Mutant {
        name: "a reader is held for what it does not want",
        file: "crates/runtime/src/session/window.rs",
        old: "if last > unread.read && unread.waits != Waits::Never {",
        new: "if unread.waits != Waits::Never {",
    },
    Mutant {
        name: "a run's last event leaves its turn to others",
        file: "crates/runtime/src/session/driver.rs",
        old: "if run.has_ended() {",
        new: "if run.has_ended() && false {",
    },
    Mutant {
        name: "a model that panics in its drop is taken for our own loop",
        file: "crates/runtime/src/run/stream.rs",
        old: "catch_unwind(AssertUnwindSafe(|| drop(phase))).map_err(|panic| panicked(&*panic))",
        new: "drop(phase);\n        Ok(())",
    },
];
