//! A model that answers from a script.

use std::{
    collections::VecDeque,
    fmt,
    future::Future as _,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use anabranch_pipeline::ToolCall;
use anabranch_proto::{ErrorType, Usage};
use futures::Stream;
use serde::Serialize;
use tokio::time::Sleep;

use crate::{Model, ModelError, ModelItem, ModelRequest, ModelStream};

type Script = dyn Fn(&ModelRequest) -> Turn + Send + Sync;

/// A model that answers from a script: the `n`-th step answers the `n`-th model call of a reply.
///
/// Steps are functions of the request, so that they can answer from real tool results. The model keeps no state, so any
/// number of agents can share it. A call beyond the script fails.
///
/// ```
/// use anabranch_runtime::{ScriptedModel, Turn};
/// use serde_json::json;
///
/// let model = ScriptedModel::new("scripted")
///     .turn(|_| Turn::new().thinking("A sum.").call("add", json!({ "a": 1, "b": 2 })))
///     .turn(|request| Turn::new().text(format!("That makes {}.", request.last_result_text())));
/// ```
#[derive(Clone)]
pub struct ScriptedModel {
    name: Arc<str>,
    steps: Vec<Arc<Script>>,
    /// Answers whatever the steps do not.
    beyond: Option<Arc<Script>>,
}

impl ScriptedModel {
    /// A model without steps.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), steps: Vec::new(), beyond: None }
    }

    /// A model whose every call is answered by one function.
    pub fn from_fn(
        name: impl Into<Arc<str>>,
        answer: impl Fn(&ModelRequest) -> Turn + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), steps: Vec::new(), beyond: Some(Arc::new(answer)) }
    }

    /// With the answer to the next model call of a reply.
    #[must_use]
    pub fn turn(mut self, answer: impl Fn(&ModelRequest) -> Turn + Send + Sync + 'static) -> Self {
        self.steps.push(Arc::new(answer));
        self
    }
}

impl Model for ScriptedModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let step = usize::try_from(request.turn).ok().and_then(|turn| self.steps.get(turn));
        let turn = match step.or(self.beyond.as_ref()) {
            Some(answer) => answer(&request),
            None => Turn::new().fail(ModelError::new(
                ErrorType::SETUP,
                format!(
                    "the script of `{}` has {} steps and was asked for another",
                    self.name,
                    self.steps.len()
                ),
            )),
        };
        turn.stream(request.turn)
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedModel")
            .field("name", &self.name)
            .field("steps", &self.steps.len())
            .finish_non_exhaustive()
    }
}

/// One answer of a [`ScriptedModel`], in order.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Turn {
    steps: VecDeque<Step>,
    calls: usize,
}

#[derive(Clone, Debug)]
enum Step {
    Item(ModelItem),
    /// A call whose id is to be made: the turn is not known yet.
    Call {
        index: usize,
        name: Arc<str>,
        arguments: String,
    },
    Wait(Duration),
    Fail(ModelError),
    Hang,
    Panic(String),
}

impl Turn {
    /// An empty answer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Text, streamed word by word.
    pub fn text(mut self, text: impl AsRef<str>) -> Self {
        self.steps.extend(words(text.as_ref()).map(|word| Step::Item(ModelItem::Text(word.to_owned()))));
        self
    }

    /// Text, streamed word by word with a pause before each.
    pub fn paced_text(mut self, text: impl AsRef<str>, pause: Duration) -> Self {
        for word in words(text.as_ref()) {
            self = self.wait(pause).item(ModelItem::Text(word.to_owned()));
        }
        self
    }

    /// Thinking, streamed word by word.
    pub fn thinking(mut self, text: impl AsRef<str>) -> Self {
        self.steps.extend(words(text.as_ref()).map(|word| Step::Item(ModelItem::Thinking(word.to_owned()))));
        self
    }

    /// A call of a tool. Its id is made of the turn and the number of the call: `call_0_1`.
    pub fn call(mut self, name: impl Into<Arc<str>>, arguments: impl Serialize) -> Self {
        // Arguments without a JSON spelling become malformed ones, which is what a script that gives them tests.
        let arguments = serde_json::to_string(&arguments).unwrap_or_default();
        self.steps.push_back(Step::Call { index: self.calls, name: name.into(), arguments });
        self.calls += 1;
        self
    }

    /// Any item.
    pub fn item(mut self, item: ModelItem) -> Self {
        self.steps.push_back(Step::Item(item));
        self
    }

    /// Tokens used.
    pub fn usage(self, input_tokens: u64, output_tokens: u64) -> Self {
        self.item(ModelItem::Usage(Usage::new(input_tokens, output_tokens)))
    }

    /// A pause.
    pub fn wait(mut self, duration: Duration) -> Self {
        self.steps.push_back(Step::Wait(duration));
        self
    }

    /// A failure. Nothing follows it.
    pub fn fail(mut self, error: ModelError) -> Self {
        self.steps.push_back(Step::Fail(error));
        self
    }

    /// A model that never goes on.
    pub fn hang(mut self) -> Self {
        self.steps.push_back(Step::Hang);
        self
    }

    /// A model that panics.
    pub fn panic(mut self, message: impl Into<String>) -> Self {
        self.steps.push_back(Step::Panic(message.into()));
        self
    }

    fn stream(self, turn: u32) -> ModelStream {
        Box::pin(TurnStream { steps: self.steps, turn, pause: None })
    }
}

/// The words of a text, each with the white space behind it.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let word = rest.find(|character: char| !character.is_whitespace()).unwrap_or(rest.len());
        let word = word + rest.get(word..)?.find(char::is_whitespace).unwrap_or(rest.len() - word);
        let end = word + rest.get(word..)?.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len() - word);
        let (word, after) = rest.split_at_checked(end)?;
        rest = after;
        (!word.is_empty()).then_some(word)
    })
}

struct TurnStream {
    steps: VecDeque<Step>,
    turn: u32,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Stream for TurnStream {
    type Item = Result<ModelItem, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(pause) = &mut self.pause {
                std::task::ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            match self.steps.pop_front() {
                None => return Poll::Ready(None),
                Some(Step::Item(item)) => return Poll::Ready(Some(Ok(item))),
                Some(Step::Call { index, name, arguments }) => {
                    let id = format!("call_{}_{index}", self.turn);
                    return Poll::Ready(Some(Ok(ModelItem::ToolCall(ToolCall::new(id, name, arguments)))));
                }
                Some(Step::Wait(duration)) => self.pause = Some(Box::pin(tokio::time::sleep(duration))),
                Some(Step::Fail(error)) => {
                    self.steps.clear();
                    return Poll::Ready(Some(Err(error)));
                }
                Some(Step::Hang) => {
                    self.steps.push_front(Step::Hang);
                    return Poll::Pending;
                }
                #[expect(clippy::panic, reason = "this step exists to see what a model's panic does")]
                Some(Step::Panic(message)) => panic!("{message}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_the_white_space_behind_them() {
        assert_eq!(words("a  table\n  of ü ").collect::<Vec<_>>(), ["a  ", "table\n  ", "of ", "ü "]);
        assert_eq!(words("  x").collect::<Vec<_>>(), ["  x"]);
        assert_eq!(words("").count(), 0);
    }
}
