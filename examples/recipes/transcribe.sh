# transcribe.sh
curl -s http://127.0.0.1:8000/v1/audio/transcriptions \
  -F file=@question.wav -F model=demo-qwen3-asr -F response_format=srt
