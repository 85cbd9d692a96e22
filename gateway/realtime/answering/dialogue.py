"""What is said and shown in a session, and who answers: items, frames of the camera, responses.

A response answers the conversation as it stands when it is created; what comes meanwhile belongs to
the next. Speech that voice detection found is answered once it is transcribed and nobody speaks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lookhear.engine.messages import ModelCard, ReadAhead
from lookhear.gateway.checks.models import find_model
from lookhear.gateway.realtime.answering.eager_ends import EagerEnds
from lookhear.gateway.realtime.answering.item_checks import Checked, ItemChecks, cut_text, make_item
from lookhear.gateway.realtime.answering.limits import DialogueLimits
from lookhear.gateway.realtime.answering.responses import Response, Responses
from lookhear.gateway.realtime.answering.sights import forget_pictures
from lookhear.gateway.realtime.answering.sounds import check_sounds, forget_sounds
from lookhear.gateway.realtime.listening.turn import Turn
from lookhear.gateway.realtime.listening.turns import Turns
from lookhear.gateway.realtime.pictures.camera import Camera, CameraFrame, DecodedFrame
from lookhear.gateway.realtime.pictures.media_requests import (
    AudioRequest,
    FrameRequest,
    Media,
    Recording,
)
from lookhear.gateway.realtime.pictures.media_store import MediaStore
from lookhear.gateway.realtime.pictures.prompts import Prompt, build_prompt
from lookhear.gateway.realtime.protocol import commands, events
from lookhear.gateway.realtime.protocol.conversation import ROOT, AudioContent, Conversation, Item
from lookhear.gateway.realtime.protocol.outputs import Emitter
from lookhear.gateway.realtime.protocol.refusals import (
    backwards,
    cannot_see,
    no_item,
    no_response,
    same_item,
    too_many_items,
)
from lookhear.gateway.realtime.settings import ConverseSettings, SessionSettings
from lookhear.gateway.telemetry.ids import IdFactory

# Characters of a turn that are read ahead at once: fewer make no block of the engine's cache.
READ_AHEAD = 64


class Dialogue:
    """The conversation of one session. It is the `Listener` of its turns and the
    `Speaker` of its responses."""

    turns: Turns

    def __init__(
        self,
        settings: SessionSettings,
        models: Sequence[ModelCard],
        conversation: Conversation,
        emitter: Emitter,
        *,
        ids: IdFactory,
        seeds: Callable[[], int],
        limits: DialogueLimits,
    ) -> None:
        self._settings = settings
        self._models = models
        self._conversation = conversation
        self._emitter = emitter
        self._ids = ids
        self._limits = limits
        self._store = MediaStore(
            emitter, max_pictures=limits.max_pictures, max_pixels=limits.max_pixels
        )
        self._camera = Camera()
        self.responses = Responses(emitter, self._store, self, ids=ids, seeds=seeds)
        self._id = ids("conv")
        self._left_out: set[str] = set()  # items that no longer fit into the context
        self._owed: set[str] = set()  # items: speech that is transcribed and to be answered
        self._has_news = False  # pictures that the engine could read ahead of the next question
        self._read = ("", 0)  # the turn of which so many characters are read ahead
        self._guess: tuple[object, ...] | None = None  # what the eager answer is about
        self._ends = EagerEnds(emitter)

    # --- settings --------------------------------------------------------------------------------

    def tune(self, settings: SessionSettings, models: Sequence[ModelCard]) -> None:
        """For what comes next. models: those that are served."""
        self._settings, self._models = settings, models
        self.responses.eager.drop()
        self._guess = None
        self._camera.capacity = None
        self._has_news = bool(self._store.num_pictures)

    @property
    def _converse(self) -> ConverseSettings:
        assert self._settings.converse is not None, "a transcription session does not converse"
        return self._settings.converse

    @property
    def _card(self) -> ModelCard:
        return find_model(self._converse.model, self._models, "session.model")

    @property
    def _checks(self) -> ItemChecks:
        return ItemChecks(self._card, self._settings, self._store, self._limits.max_characters)

    # --- items -----------------------------------------------------------------------------------

    def check_item(self, command: commands.CreateItem) -> Checked:
        """Raises ProtocolError."""
        new, after = command.item, command.after
        if after is not None and after != ROOT and after not in self._conversation:
            raise no_item(after, "previous_item_id")
        if new.id is not None and (new.id == ROOT or self._is_taken(new.id)):
            raise same_item(new.id)
        if len(self._conversation) >= self._conversation.limit:
            raise too_many_items(self._conversation.limit)
        checks = self._checks
        checks.check(new, self._conversation.characters, self._conversation.call_ids(after))
        requests = checks.requests([new])
        if self._settings.model is not None:
            self.turns.check_room(sum(isinstance(r, AudioRequest) for r in requests))
        return Checked(requests, lambda media, now: self._create_item(command, media, now))

    def _create_item(self, command: commands.CreateItem, media: Media, now: float) -> None:
        new, after = command.item, command.after
        id, is_told = new.id or self._ids("item"), self._settings.model is not None
        item = make_item(new, media, id, hears=self.keeps_sound, is_told=is_told)
        self._checks.check_room([new], media)
        check_sounds([*self._conversation, item], new.path, self._limits.max_spoken_seconds)
        if after not in (None, ROOT) and after not in self._conversation:
            after = ROOT  # while media was loaded an answer pushed it out, the oldest there was
        self.add_item(item, after)
        self._emitter.send(events.ItemAdded(item, self._conversation.before(item)))
        for index, part in enumerate(new.parts):
            if is_told and isinstance(part, commands.NewAudio) and part.audio is not None:
                recording = media[part.path]
                assert isinstance(recording, Recording)
                self.turns.transcribe(item, index, recording, now)

    def _is_taken(self, item_id: str) -> bool:
        owners = self.turns, self.responses
        return item_id in self._conversation or any(owner.owns(item_id) for owner in owners)

    def add_item(self, item: Item, after: str | None = None) -> None:
        """Its pictures are held from now on; so are those of the items it pushes out no more."""
        for forgotten in self._conversation.add(item, after):
            self._let_go(forgotten)
        self._store.keep(item.media())
        self._has_news = self._has_news or bool(item.media(hears=False))

    def delete(self, command: commands.DeleteItem) -> None:
        """Raises ProtocolError if there is no such item."""
        item = self._conversation.get(command.item_id)
        if item is None:
            raise no_item(command.item_id)
        previous = self._conversation.before(item) or ROOT
        self._conversation.delete(item.id)
        self._let_go(item)
        self._emitter.send(events.ItemDeleted(item.id))
        self.responses.forget(item, previous)
        self.responses.settled()

    def _let_go(self, item: Item) -> None:
        self._left_out.discard(item.id)
        self._owed.discard(item.id)
        self._store.release(item.media())

    def truncate(self, command: commands.TruncateItem) -> None:
        """Raises ProtocolError if there is no such item, or no text to cut."""
        item = self._conversation.get(command.item_id)
        if item is None:
            raise no_item(command.item_id)
        cut_text(item, command)
        place = command.content_index, command.milliseconds
        self._emitter.send(events.ItemTruncated(item.id, *place))

    # --- the camera ------------------------------------------------------------------------------

    def check_frame(self, command: commands.AppendFrame) -> Checked | None:
        """None: it comes too soon after the one before. Raises ProtocolError."""
        if not self._card.can("video"):
            raise cannot_see("image", self._card.id)
        newest = self._camera.newest_ms
        if newest is not None and command.timestamp_ms < newest:
            raise backwards(command.timestamp_ms, newest)
        settings = self._converse.camera
        if not self._camera.is_due(command.timestamp_ms, settings.max_fps):
            return None
        request = FrameRequest("image", command.url, settings.max_pixels)
        return Checked([request], lambda media, _: self._see(command, media))

    def _see(self, command: commands.AppendFrame, media: Media) -> None:
        seen = media["image"]
        assert isinstance(seen, DecodedFrame)
        self._store.check_room([(seen.picture, "image")])
        settings = self._converse.camera
        # What comes while an answer is being given is behind it.
        active = self.responses.default
        after = self._conversation.last_answer_id if active is None else active.answer_id
        if not self._camera.see(seen, command.timestamp_ms, after, settings.min_change):
            return
        self._store.keep([seen.picture])
        self._store.release(frame.picture for frame in self._camera.thin(settings.max_frames))
        self._has_news = True
        if settings.report:
            self._emitter.send(events.FrameKept(command.timestamp_ms, len(self._camera.frames)))

    def clear_frames(self) -> None:
        """Forget what the camera showed."""
        self._store.release(frame.picture for frame in self._camera.clear())
        self._emitter.send(events.FramesCleared())

    # --- responses -------------------------------------------------------------------------------

    def check_response(self, command: commands.CreateResponse) -> Checked:
        """Until it is carried out or given up, no other response begins in its place. Raises
        ProtocolError."""
        plan = command.plan(self._converse)
        self.responses.check_room(is_default=plan.in_conversation)
        checks, given = self._checks, command.context
        if given is None:
            checks.check_sight(self._in_context())
            return Checked([], lambda _, __: self._respond(plan, None))
        context = checks.check_context(given, self._conversation)

        def create(media: Media, _: float) -> None:
            checks.check_room(given, media)
            # New items are called by their path.
            made = [
                make_item(x, media, x.path) if isinstance(x, commands.NewItem) else x
                for x in context
            ]
            self._respond(plan, made)

        return Checked(checks.requests(given), create, reserves=plan.in_conversation)

    def answer(self) -> None:
        """The conversation, as the session is set."""
        self._respond(commands.ResponsePlan(self._converse, True, None), None)

    def _respond(self, plan: commands.ResponsePlan, items: list[Item] | None) -> None:
        """items: a context of its own; None: the conversation's."""
        conversation = self._id if plan.in_conversation else None
        response = Response(
            head=events.ResponseHead(self._ids("resp"), plan.settings, conversation, plan.metadata),
            answer_id=self._ids("item"),
            items=self._in_context() if items is None else items,
            frames=self._frames() if items is None else [],
            sees_all=items is None,
            after=self._conversation.last_id or ROOT,
        )
        if plan.in_conversation:
            seen = {item.id for item in response.items}
            response.owed = set(self._owed if items is None else self._owed & seen)
            self._owed -= response.owed
            self.turns.ask(response.items)
        self.responses.create(response)

    def cancel_response(self, command: commands.CancelResponse) -> None:
        """Raises ProtocolError if it is not under way."""
        named = command.response_id
        response = self.responses.default if named is None else self.responses.get(named)
        if response is None:
            raise no_response(command)
        self.responses.cancel(response, "client_cancelled")

    def _in_context(self) -> list[Item]:
        return [item for item in self._conversation if item.id not in self._left_out]

    def _frames(self) -> list[CameraFrame]:
        return list(self._camera.frames) if self._card.can("video") else []

    @property
    def keeps_sound(self) -> bool:
        """What is said is heard by who answers it. See `Listener`."""
        return self._settings.converse is not None and self._card.can("audio")

    # --- as the Speaker of responses -------------------------------------------------------------

    def hears(self, model: str) -> bool:
        """See `Speaker`."""
        return find_model(model, self._models, "session.model").can("audio")

    def insert_output(self, response: Response, item: Item) -> str | None:
        """The item joins the conversation behind what it answers, see `Speaker`."""
        after = response.after
        if after != ROOT and after not in self._conversation:
            after = None
        self.add_item(item, after)
        response.after = item.id
        return self._conversation.before(item)

    def on_shortened(self, response: Response) -> None:
        """What did not fit stays out from now on, so that the next prompts begin alike."""
        self._left_out.update(i.id for i in response.left_out if i.id in self._conversation)
        if response.frames_left_out:
            self._camera.capacity = len(response.frames)
        gone_frames = self._camera.forget(response.frames_left_out)
        self._store.release(frame.picture for frame in gone_frames)

    # --- as the Listener of speech ---------------------------------------------------------------

    def on_speech(self) -> None:
        """An answer that may be interrupted is."""
        detection = self._settings.turn_detection
        active = self.responses.default
        if active is not None and detection is not None and detection.interrupt_response:
            self.responses.cancel(active, "turn_detected")
            if not active.has_said:  # what it was about is answered together with the rest
                self._owed.update(id for id in active.owed if id in self._conversation)
                self.turns.ask(active.items, asked=False)

    def on_settled(self, turn: Turn) -> None:
        """A turn of the voice's is to be answered, unless a response does, or it is deleted."""
        has_text = turn.failure is None and bool("".join(turn.text).strip())
        item, active = self._conversation.get(turn.item), self.responses.default
        if turn.wants_answer and has_text and item is not None:
            if not turn.is_asked:
                self._owed.add(item.id)
            elif active is not None and item in active.items:
                active.owed.add(item.id)
        self.responses.settled()

    # --- after every event -----------------------------------------------------------------------

    def settle(self, *, is_reserved: bool) -> None:
        """What is to be done once an event has been dealt with. is_reserved: the place of the
        conversation's response is another's."""
        converse, detection = self._settings.converse, self._settings.turn_detection
        if converse is None or detection is None or not detection.create_response:
            self._owed.clear()
        if converse is None:
            self._ends.tell(self.turns.heard, is_wanted=bool(self._settings.eager))
        else:
            is_quiet = not self.turns.is_speaking and not self.turns.pending
            is_free = self.responses.default is None and not is_reserved
            if self._owed and is_quiet and is_free:
                self.answer()
            self._be_eager(converse)
            if self._has_news and not len(self.responses) and not self.responses.eager.is_under_way:
                self._has_news = False
                self._read_ahead()
        if not len(self.responses):
            forget_pictures(self._conversation, self._left_out, self._store)
            forget_sounds(self._conversation, self._store, self._limits.max_spoken_seconds)
            self._store.stay_with(converse.model if converse is not None else None)
        self._store.sweep()

    def _be_eager(self, converse: ConverseSettings) -> None:
        """Begin to answer what is probably all that somebody says, read what they said so far while
        they speak, and give up what turns out to be something else."""
        turn = self.turns.heard if self._settings.is_eager else None
        if turn is not None and self.responses.default is not None:
            turn = None  # it would answer less than will have been said
        self._ends.tell(turn, is_wanted=bool(self._settings.eager))
        if turn is None or turn.guess is None or self.keeps_sound:
            self._guess = None
            self.responses.eager.drop()
            # Who hears is asked about all of the turn, once it is over.
            if turn is not None and turn.committed_at is None and not self.keeps_sound:
                self._read_turn(turn)
            return
        about = (turn.item, turn.guess, len(self._conversation), *self._camera.frames[-1:])
        if turn.committed_at is None and about != self._guess:
            self._guess = about
            self.responses.eager.begin(converse, self._prompt_with(turn.item, turn.guess))

    def _read_turn(self, turn: Turn) -> None:
        """Let the engine read what was said for sure, a block or more of it at once."""
        item, count = self._read
        is_new = item != turn.item or turn.characters >= count + READ_AHEAD
        if len(self.responses) or not is_new:
            return
        self._read = (turn.item, turn.characters)
        self._has_news = False
        prompt = self._prompt_with(turn.item, turn.committed_text)
        if prompt.messages:
            self._submit_ahead(prompt)

    def _prompt_with(self, id: str, text: str) -> Prompt:
        """What the engine would be asked if somebody had said this, and no more."""
        return self._prompt_of([*self._in_context(), Item(id, content=[AudioContent(text)])])

    def _prompt_of(self, items: list[Item]) -> Prompt:
        told = self._converse.instructions
        return build_prompt(told, items, self._frames(), hears=self.keeps_sound)

    def _read_ahead(self) -> None:
        """Let the engine look at new pictures while nobody waits for an answer."""
        items = self._in_context()
        waits = (i for i, item in enumerate(items) if item.is_pending(hears=self.keeps_sound))
        prompt = self._prompt_of(items[: next(waits, len(items))])
        if prompt.media and self._card.can("image"):
            self._submit_ahead(prompt)

    def _submit_ahead(self, prompt: Prompt) -> None:
        self._store.show(prompt.media, self._card.id)
        told = self._converse.answer(0).tools
        self._emitter.submit(ReadAhead(self._emitter.session, self._card.id, prompt.messages, told))
