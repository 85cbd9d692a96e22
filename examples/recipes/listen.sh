# listen.sh
ffmpeg -loglevel error -i talk.wav -f wav - | lookhear listen - --server http://127.0.0.1:8000
