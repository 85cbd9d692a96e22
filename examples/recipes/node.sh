# node.sh
NODE_EXTRA_CA_CERTS=cert.pem node realtime.mjs
NODE_EXTRA_CA_CERTS=cert.pem node chat.mjs
