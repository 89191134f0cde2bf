//! Runs a plan and writes down what happened.

use std::{cell::RefCell, panic, sync::Arc, time::Duration};

use anabranch_pipeline::ToolDefinition;
use anabranch_proto::{Admitted, Message, Outcome, SessionId, native};
use anabranch_runtime::{Agent, ExternalTool, Limits, Permission, Permissions, Session, SpawnSubagent};
use anabranch_session::{SessionRecord, Status};
use schemars::JsonSchema;
use tokio::{
    runtime::{Builder, Handle},
    sync::watch,
    task::JoinHandle,
};

use crate::{
    fakes::{FakeModel, FakeTool, Meddler, OUTPUT, agent_name, number, typed},
    log::RecordingLog,
    person::{REQUEST, person},
    plan::{self, Ask, CallPlan, CancelHow, PANIC, Plan, SessionEnding},
    read::{self, ReadRecord},
    seen::Seen,
    stamp::VirtualStamp,
    world::{ROOT, World},
};

/// How long a model call may take, in milliseconds: more than any pause, less than a session's patience.
pub(crate) const MODEL_CALL: u64 = 5_000;

/// How many bytes a model call may give.
const MODEL_OUTPUT: usize = 6_000;

/// After how much virtual time a run hangs: more than all deadlines together.
const HANGS_AFTER: Duration = Duration::from_secs(86_400);

/// What happened in a run.
#[derive(Debug)]
#[non_exhaustive]
pub struct Record {
    /// Every event that reached the log.
    pub log: Vec<Admitted>,
    /// When each reached the log, in milliseconds from the start.
    pub(crate) times: Vec<u64>,
    pub(crate) root: SessionId,
    /// What the fakes saw.
    pub(crate) seen: Seen,
    pub(crate) replies: Vec<ReadRecord>,
    pub(crate) readers: Vec<ReadRecord>,
    /// How many prompts the session took.
    pub(crate) prompts: usize,
    /// What the session said of itself when it had ended.
    pub(crate) end: End,
    /// Panics that were not planned.
    pub(crate) panics: Vec<String>,
    /// How often fakes were polled.
    pub(crate) polls: u64,
    /// Whether the run did not come to an end.
    pub(crate) hangs: bool,
}

/// What a session said of itself when it had ended, and what was left of it.
#[derive(Debug, Default)]
pub(crate) struct End {
    pub(crate) messages: Vec<Message>,
    pub(crate) tree: Vec<(SessionId, u32, u32, Option<Outcome>)>,
    pub(crate) children_running: usize,
    pub(crate) alive_tasks: usize,
    pub(crate) alive_fakes: usize,
}

impl Record {
    /// The events as lines of native JSON.
    ///
    /// # Panics
    /// When an event has no native spelling, which would be a fault of `anabranch-proto`.
    #[must_use]
    #[expect(clippy::expect_used, reason = "an internal tool")]
    pub fn lines(&self) -> Vec<String> {
        let line = |admitted: &Admitted| {
            let mut line = Vec::new();
            native::write(Some(admitted.seq), &admitted.event, &mut line).expect("an event has a spelling");
            String::from_utf8_lossy(&line).into_owned()
        };
        self.log.iter().map(line).collect()
    }
}

thread_local! {
    /// None while no run is under way.
    static PANICS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Makes panics that are planned silent, and keeps the others for the record of the thread's run.
pub fn catch_panics() {
    panic::set_hook(Box::new(|info| {
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text =
            text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        if text != PANIC {
            let at = info.location().map_or_else(String::new, ToString::to_string);
            PANICS.with_borrow_mut(|panics| match panics {
                Some(panics) => panics.push(format!("{text} at {at}")),
                None => eprintln!("panicked: {text} at {at}"),
            });
        }
    }));
}

/// Runs a plan.
///
/// # Panics
/// When no async runtime can be built.
#[must_use]
#[expect(clippy::expect_used, reason = "an internal tool")]
pub fn run(plan: &Plan) -> Record {
    PANICS.set(Some(Vec::new()));
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime can be built");
    let world = runtime.block_on(async { World::new(plan, Arc::new(RecordingLog::new(plan.retention))) });
    let played = runtime.block_on(async { tokio::time::timeout(HANGS_AFTER, play(plan, &world)).await });
    world.forget_session();
    drop(runtime);
    world.forget_template();
    let hangs = played.is_err();
    let mut record = played.unwrap_or_else(|_| Record::empty());
    record.seen = world.take();
    (record.log, record.times) = (world.log.all(), world.log.times());
    record.hangs = hangs;
    record.polls = world.polls();
    record.panics = PANICS.take().unwrap_or_default();
    record.end.alive_fakes = world.alive();
    record
}

impl Record {
    fn empty() -> Self {
        Self {
            log: Vec::new(),
            times: Vec::new(),
            root: SessionId::new(ROOT),
            seen: Seen::default(),
            replies: Vec::new(),
            readers: Vec::new(),
            prompts: 0,
            end: End::default(),
            panics: Vec::new(),
            polls: 0,
            hangs: false,
        }
    }
}

fn limits(plan: &Plan) -> Limits {
    Limits::default()
        .max_depth(plan.limits.depth)
        .max_running(plan.limits.running)
        .max_spawned(plan.limits.spawned)
        .max_iterations(plan.limits.iterations)
        .tool_output(OUTPUT)
        .model_output(MODEL_OUTPUT)
        .model_call(Duration::from_millis(MODEL_CALL))
        .reader_window(plan.limits.window)
        .stall(Duration::from_millis(plan.limits.stall))
        .request(Duration::from_millis(REQUEST))
}

/// The root, and the template of every child: they differ by what they are asked.
fn agent(plan: &Plan, world: &Arc<World>, name: String, member: Option<u32>) -> Agent {
    let weak = Arc::downgrade(world);
    let nobody = Agent::builder("nobody", FakeModel { world: Arc::clone(world), member }).build();
    let spawn = SpawnSubagent::choosing(move |_| {
        weak.upgrade().and_then(|world| world.template()).unwrap_or_else(|| nobody.clone())
    })
    .named_by(|arguments| Some(arguments.task.clone()));
    Agent::builder(name, FakeModel { world: Arc::clone(world), member })
        .tool(FakeTool::act(world))
        .tool(FakeTool::alone(world))
        .tool(typed(world))
        .tool(ExternalTool::new(ToolDefinition::typed::<OutsideArguments>(
            "outside",
            "Is run by somebody else.",
        )))
        .tool(spawn)
        .layer(Meddler(Arc::clone(world)))
        .permissions(permissions(world))
        .limits(limits(plan))
        .build()
}

/// The arguments of what somebody else runs.
#[derive(Debug, JsonSchema)]
#[expect(dead_code, reason = "it is there for its schema")]
struct OutsideArguments {
    call: u32,
}

fn permissions(world: &Arc<World>) -> Permissions {
    let world = Arc::clone(world);
    Permissions::new().deciding(move |call| {
        Some(match world.call(number(&call.arguments)?)?.ask? {
            Ask::Forbidden => Permission::Deny("planned".to_owned()),
            Ask::Allowed | Ask::Edited | Ask::Refused | Ask::Unanswered => Permission::Ask,
        })
    })
}

async fn play(plan: &Plan, world: &Arc<World>) -> Record {
    let mut record = Record::empty();
    let agent = self::agent(plan, world, "root".to_owned(), None);
    world.set_template(agent.clone());
    for number in plan::calls(plan).flat_map(CallPlan::members) {
        world.set_member(number, self::agent(plan, world, agent_name(number), Some(number)));
    }
    let builder = agent.session_builder().id(record.root.clone()).stamp(Arc::new(VirtualStamp::new()));
    let log: Arc<RecordingLog> = Arc::clone(&world.log);
    let Ok(session) = builder.log(log).start() else { return record };
    world.set_session(session.clone());

    let (over, is_over) = watch::channel(false);
    let beyond = session.subscribe(u64::MAX);
    let end = tokio::spawn(async move {
        read::to_end(beyond).await;
        over.send_replace(true);
    });
    let person = person(Arc::clone(world), is_over.clone());
    let readers: Vec<_> =
        plan.readers.iter().map(|reader| read::reader(*reader, session.clone(), is_over.clone())).collect();
    let mut replies: Vec<JoinHandle<ReadRecord>> = Vec::new();
    for (number, prompt) in plan.prompts.iter().enumerate() {
        if !prompt.queued {
            wait(plan, world, &session, is_over.clone(), number).await;
        }
        let asked = session.prompt(agent_name(prompt.agent.number)).await;
        let Ok(reply) = asked else { break };
        world.prompted();
        record.prompts += 1;
        replies.push(read::reply(prompt.reply, reply, Arc::clone(world), number, is_over.clone()));
    }
    wait(plan, world, &session, is_over.clone(), record.prompts).await;
    if plan.linger > 0 {
        tokio::time::sleep(Duration::from_millis(plan.linger)).await;
    }
    let watched = session.clone();
    if plan.ending == SessionEnding::Close {
        world.note_cancel(None, true, 0);
        session.close().await;
    }
    record.end.messages = watched.messages();
    record.end.tree = watched.with_tree(|tree| {
        let outcome = |record: &SessionRecord| {
            if let Status::Ended(outcome) = record.status { Some(outcome) } else { None }
        };
        tree.iter().map(|record| (record.id.clone(), record.depth, record.runs, outcome(record))).collect()
    });
    if plan.ending == SessionEnding::Close {
        record.end.children_running = watched.children_running();
    }
    world.forget_session();
    drop((session, watched));
    end.await.ok();
    person.await.ok();
    for reply in replies {
        record.replies.extend(reply.await);
    }
    for reader in readers {
        record.readers.extend(reader.await);
    }
    // Those that stop or answer something by a task of their own have nothing left to wait for but their pause.
    tokio::time::sleep(Duration::from_millis(REQUEST)).await;
    record.end.alive_tasks = Handle::current().metrics().num_alive_tasks();
    record
}

/// Waits until so many of the root's runs have ended, or the session has. Stops what goes on for ever.
async fn wait(
    plan: &Plan,
    world: &Arc<World>,
    session: &Session,
    mut is_over: watch::Receiver<bool>,
    runs: usize,
) {
    let mut ended = world.log.ended();
    loop {
        let patience = tokio::time::sleep(Duration::from_millis(plan.patience));
        tokio::select! {
            biased;
            _ = ended.wait_for(|ended| *ended >= runs) => return,
            _ = is_over.wait_for(|is_over| *is_over) => return,
            () = patience => {
                world.note_last_resort();
                session.cancel();
            }
        }
    }
}

/// Names in a summary what stopped something.
#[must_use]
pub fn name_of(how: CancelHow) -> &'static str {
    match how {
        CancelHow::Session => "Session::cancel in a poll",
        CancelHow::Close => "Session::close in a poll",
        CancelHow::Task => "Session::cancel by a task",
        CancelHow::Now => "Session::cancel behind a reply",
        CancelHow::Child => "Session::cancel_session",
        CancelHow::Steer => "Session::steer",
    }
}
