# ask.sh
lookhear chat --server http://127.0.0.1:8000 --image scene.png "What colour is the circle?"
lookhear chat --server http://127.0.0.1:8000 --image scene.png --audio question.wav
