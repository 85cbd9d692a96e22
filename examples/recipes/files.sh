# files.sh
ffmpeg -loglevel error -i tools/demo/lookhear_demo/recordings/hello.opus -ac 1 -ar 24000 talk.wav
ffmpeg -loglevel error -i tools/demo/lookhear_demo/recordings/question-colour.opus -ac 1 -ar 24000 question.wav
python -c "
from PIL import Image, ImageDraw
image = Image.new('RGB', (192, 192), (244, 242, 236))
brush = ImageDraw.Draw(image)
brush.ellipse([10, 10, 54, 54], fill='red')
brush.rectangle([138, 138, 182, 182], fill='blue')
image.save('scene.png')"
