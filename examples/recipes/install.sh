# install.sh
npm install --no-audit --no-fund openai ws
