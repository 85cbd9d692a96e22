# pipecat_agent.py
import asyncio
import base64
import wave
from pathlib import Path

from pipecat.frames.frames import (
    EndFrame,
    Frame,
    InputAudioRawFrame,
    LLMFullResponseEndFrame,
    LLMTextFrame,
    TranscriptionFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.services.openai.stt import OpenAIRealtimeSTTService
from pipecat.workers.runner import WorkerRunner

stt = OpenAIRealtimeSTTService(
    base_url="ws://127.0.0.1:8000/v1/realtime",
    api_key="unused",
    turn_detection={"type": "server_vad"},
    settings=OpenAIRealtimeSTTService.Settings(model="demo-qwen3-asr"),
)
llm = OpenAILLMService(
    base_url="http://127.0.0.1:8000/v1",
    api_key="unused",
    settings=OpenAILLMService.Settings(model="demo-qwen3-vl"),
)


class Printer(FrameProcessor):
    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TranscriptionFrame):
            print(frame.text, flush=True)
        elif isinstance(frame, LLMTextFrame):
            print(frame.text, end="", flush=True)
        elif isinstance(frame, LLMFullResponseEndFrame):
            print()
            await worker.queue_frame(EndFrame())
        await self.push_frame(frame, direction)


picture = base64.b64encode(Path("scene.png").read_bytes()).decode()
image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}
context = LLMContext(messages=[{"role": "user", "content": [image]}])
turns = LLMContextAggregatorPair(context)
worker = PipelineWorker(
    # Behind `llm` come a voice and the transport's output, in front of `stt` its input.
    Pipeline([stt, Printer(), turns.user(), llm, Printer(), turns.assistant()]),
    params=PipelineParams(audio_in_sample_rate=24_000),
)


async def speak() -> None:
    with wave.open("question.wav") as file:  # 16 bits, mono, 24 kHz
        samples = file.readframes(file.getnframes()) + bytes(48_000)  # and a second of silence
    for first in range(0, len(samples), 960):
        await worker.queue_frame(InputAudioRawFrame(samples[first : first + 960], 24_000, 1))
        await asyncio.sleep(0.02)


async def main() -> None:
    runner = WorkerRunner()
    await runner.add_workers(worker)
    await asyncio.gather(runner.run(), speak())


asyncio.run(main())
