# chat.sh
curl -sN http://127.0.0.1:8000/v1/chat/completions \
  -H 'Content-Type: application/json' -d @- <<EOF | grep -o '"content":"[^"]*"'
{"model": "demo-qwen3-vl", "stream": true, "messages": [{"role": "user", "content": [
  {"type": "image_url", "image_url": {"url": "data:image/png;base64,$(base64 -w0 scene.png)"}},
  {"type": "text", "text": "What colour is the square?"}
]}]}
EOF
