#!/bin/bash
# pki.sh: one CA, server and client certificates, kubeconfigs, all in $STATE; about 0.3 s with EC keys.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
umask 077
P="$STATE/pki"
mkdir -p "$P"
cd "$P"

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }
authority() { # name
  key "$1"
  openssl req -x509 -new -key "$1.key" -subj "/CN=coder-k8s-$CLUSTER_NAME-$1" -days 3650 -out "$1.crt" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature
}
sign() { # authority name subject usage [alternative names]
  key "$2"
  openssl req -new -key "$2.key" -subj "$3" -out "$2.csr"
  {
    echo "keyUsage=critical,digitalSignature"
    echo "extendedKeyUsage=$4"
    [ -z "${5:-}" ] || echo "subjectAltName=$5"
  } >"$2.ext"
  openssl x509 -req -in "$2.csr" -CA "$1.crt" -CAkey "$1.key" -CAcreateserial -days 3650 -extfile "$2.ext" -out "$2.crt"
  rm -f "$2.csr" "$2.ext"
}

names() { echo "IP:${1//,/,IP:}"; } # The alternative names of addresses, which are separated by commas.

authority ca
sign ca apiserver "/CN=kube-apiserver" serverAuth \
  "IP:127.0.0.1,$(names "$(each node_address 1),$API_SVC_IP"),DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
sign ca apiserver-kubelet-client "/O=coder-k8s:kubelet-api-admin/CN=kube-apiserver-kubelet-client" clientAuth
sign ca admin "/O=system:masters/CN=$CLUSTER_NAME-admin" clientAuth
sign ca controller-manager "/CN=system:kube-controller-manager" clientAuth
sign ca scheduler "/CN=system:kube-scheduler" clientAuth
sign ca proxy "/CN=system:kube-proxy" clientAuth
kubelets=()
for n in $(seq "$NODES"); do
  name=$(node_name "$n")
  sign ca "kubelet-$n-server" "/CN=$name" serverAuth "$(names "$(each node_address "$n")"),IP:127.0.0.1,DNS:$name"
  sign ca "kubelet-$n" "/O=system:nodes/CN=system:node:$name" clientAuth
  kubelets+=("kubelet-$n")
done
authority front-ca
sign front-ca front-proxy "/CN=front-proxy-client" clientAuth
openssl genrsa -out sa.key 2048
openssl rsa -in sa.key -pubout -out sa.pub

for u in admin controller-manager scheduler proxy "${kubelets[@]}"; do
  cat >"$STATE/$u.kubeconfig" <<Y
apiVersion: v1
kind: Config
clusters: [{name: $CLUSTER_NAME, cluster: {server: "https://$(in_url "$API_IP"):6443", certificate-authority-data: $(base64 -w0 <ca.crt)}}]
users: [{name: $u, user: {client-certificate-data: $(base64 -w0 <"$u.crt"), client-key-data: $(base64 -w0 <"$u.key")}}]
contexts: [{name: $CLUSTER_NAME, context: {cluster: $CLUSTER_NAME, user: $u}}]
current-context: $CLUSTER_NAME
Y
done
