package admission

import "strings"

var kindRules = []rule{
	{
		name: "a record that is not named after its object", kinds: []string{record}, at: "<nil>", says: "metadata.name must be ws- or tpl- and spec.uid",
		badName: "coder", goodName: "ws-" + someUID,
	},
	{
		name: "a record of no object", kinds: []string{record}, at: "spec.uid", says: "must be a UUID in lower case",
		badName: "ws-other", bad: "uid: other", goodName: "ws-" + someUID,
	},
	{
		name: "a name with a dot", kinds: []string{controlPlane}, at: "metadata.name", says: "must not contain a dot",
		badName: "a.b", goodName: "a-b",
	},
	{
		name: "a name that is too long", kinds: []string{controlPlane}, at: "metadata.name", says: "must have at most 63 characters",
		badName: strings.Repeat("a", 64), goodName: strings.Repeat("a", 63),
	},
	{
		name: "a name that begins with a digit", kinds: []string{controlPlane}, at: "metadata.name", says: "must begin with a letter",
		badName: "1coder", goodName: "coder1",
	},
	{
		name: "no Service to call", kinds: []string{controlPlane}, at: "spec.service.enabled", says: "keep the Service, or set spec.operatorAccess.disabled to true",
		bad: "service: {enabled: false}", good: "{service: {enabled: false}, operatorAccess: {disabled: true}}",
	},
	{
		name: "two databases", kinds: []string{controlPlane}, at: "spec.database", says: "CODER_PG_CONNECTION_URL in spec.extraEnv names a database too; keep one",
		bad:  "{database: {secretRef: {name: a}}, extraEnv: [{name: CODER_PG_CONNECTION_URL, value: a}]}",
		good: "{database: {secretRef: {name: a}}, extraEnv: [{name: CODER_VERBOSE, value: 'true'}]}",
	},
	{
		name: "a database of two kinds", kinds: []string{controlPlane}, at: "spec.database", says: "give exactly one",
		bad: "database: {secretRef: {name: a}, cloudNativePG: {clusterName: b}}", good: "database: {cloudNativePG: {clusterName: b}}",
	},
	{
		name: "a database of no kind", kinds: []string{controlPlane}, at: "spec.database", says: "give exactly one",
		bad: "database: {}", good: "database: {secretRef: {name: a}}",
	},
	{
		name: "a database of no Secret", kinds: []string{controlPlane}, at: "spec.database.secretRef.name", says: `"": must be the name of a Secret`,
		bad: "database: {secretRef: {name: ''}}", good: "database: {secretRef: {name: a}}",
	},
	{
		name: "a database of no key", kinds: []string{controlPlane}, at: "spec.database.secretRef.key", says: `"postgres://a": must be a key of a Secret`,
		bad: "database: {secretRef: {name: a, key: 'postgres://a'}}", good: "database: {secretRef: {name: a, key: uri}}",
	},
	{
		name: "a database of no cluster", kinds: []string{controlPlane}, at: "spec.database.cloudNativePG.clusterName", says: `"A": must be the name of a Cluster`,
		bad: "database: {cloudNativePG: {clusterName: A}}", good: "database: {cloudNativePG: {clusterName: a}}",
	},
	{
		name: "a rule of identity for nobody and somebody", kinds: []string{controlPlane}, at: "spec.identity.rules[0]", says: "give exactly one",
		bad:  "identity: {rules: [{match: {userName: a}, operator: true, nobody: true}]}",
		good: "identity: {rules: [{match: {userName: a}, operator: true, nobody: false}]}",
	},
	{
		name: "a rule of identity to no one", kinds: []string{controlPlane}, at: "spec.identity.rules[0]", says: "to the operator or to nobody",
		bad: "identity: {rules: [{match: {userName: a}}]}", good: "identity: {rules: [{match: {userName: a}, nobody: true}]}",
	},
	{
		name: "a part of the name without *", kinds: []string{controlPlane}, at: "spec.identity.rules[0]", says: "{match} is the text that * stands for",
		bad:  "identity: {rules: [{match: {userName: a}, coderUser: {username: '{match}'}}]}",
		good: "identity: {rules: [{match: {userName: 'a*'}, coderUser: {username: '{match}'}}, {match: {serviceAccount: {namespace: a, name: '*'}}, coderUser: {email: '{match}@b.c'}}]}",
	},
	{
		name: "an extra value without extra", kinds: []string{controlPlane}, at: "spec.identity.rules[0]", says: "{extra} is the value that match.extra found",
		bad: "identity: {rules: [{match: {group: a}, coderUser: {email: '{extra}'}}]}", good: "identity: {rules: [{match: {extra: {key: a/b}}, coderUser: {email: '{extra}'}}]}",
	},
	{
		name: "a match of two kinds", kinds: []string{controlPlane}, at: "spec.identity.rules[0].match", says: "give exactly one",
		bad: "identity: {rules: [{match: {userName: a, group: b}, nobody: true}]}", good: "identity: {rules: [{match: {group: b}, nobody: true}]}",
	},
	{
		name: "a match with two *", kinds: []string{controlPlane}, at: "spec.identity.rules[0].match.userName", says: "must have at most one *",
		bad: "identity: {rules: [{match: {userName: 'a*b*'}, nobody: true}]}", good: "identity: {rules: [{match: {userName: 'a*b'}, nobody: true}]}",
	},
	{
		name: "a group with *", kinds: []string{controlPlane}, at: "spec.identity.rules[0].match.group", says: "without *",
		bad: "identity: {rules: [{match: {group: 'a*'}, nobody: true}]}", good: "identity: {rules: [{match: {group: a}, nobody: true}]}",
	},
	{
		name: "an extra key in upper case", kinds: []string{controlPlane}, at: "spec.identity.rules[0].match.extra.key", says: "must be in lower case",
		bad: "identity: {rules: [{match: {extra: {key: a/Email}}, nobody: true}]}", good: "identity: {rules: [{match: {extra: {key: a/email}}, nobody: true}]}",
	},
	{
		name: "an extra value with two *", kinds: []string{controlPlane}, at: "spec.identity.rules[0].match.extra.value", says: "must have at most one *",
		bad: "identity: {rules: [{match: {extra: {key: a, value: '**'}}, nobody: true}]}", good: "identity: {rules: [{match: {extra: {key: a, value: '*'}}, nobody: true}]}",
	},
	{
		name: "a ServiceAccount of no namespace", kinds: []string{controlPlane}, at: "spec.identity.rules[0].match.serviceAccount.namespace", says: "must be the name of a namespace",
		bad:  "identity: {rules: [{match: {serviceAccount: {namespace: '*', name: a}}, nobody: true}]}",
		good: "identity: {rules: [{match: {serviceAccount: {namespace: a, name: a}}, nobody: true}]}",
	},
	{
		name: "a ServiceAccount of no name", kinds: []string{controlPlane}, at: "spec.identity.rules[0].match.serviceAccount.name", says: "must be the name of a ServiceAccount",
		bad:  "identity: {rules: [{match: {serviceAccount: {namespace: a, name: ''}}, nobody: true}]}",
		good: "identity: {rules: [{match: {serviceAccount: {namespace: a, name: 'b-*'}}, nobody: true}]}",
	},
	{
		name: "a Coder user by two names", kinds: []string{controlPlane}, at: "spec.identity.rules[0].coderUser", says: "by its username or by its email; give exactly one",
		bad:  "identity: {rules: [{match: {group: a}, coderUser: {username: a, email: a@b.c}}]}",
		good: "identity: {rules: [{match: {group: a}, coderUser: {email: a@b.c}}]}",
	},
	{
		name: "a Coder user of no name", kinds: []string{controlPlane}, at: "spec.identity.rules[0].coderUser.username", says: "must be a username in Coder",
		bad: "identity: {rules: [{match: {group: a}, coderUser: {username: '{user}'}}]}", good: "identity: {rules: [{match: {group: a}, coderUser: {username: '{name}'}}]}",
	},
	{
		name: "a Coder user of no email", kinds: []string{controlPlane}, at: "spec.identity.rules[0].coderUser.email", says: "must be an email address",
		bad: "identity: {rules: [{match: {group: a}, coderUser: {email: alice}}]}", good: "identity: {rules: [{match: {group: a}, coderUser: {email: '{name}@b.c'}}]}",
	},
	{
		name: "a license without access", kinds: []string{controlPlane}, at: "spec.licenseSecretRef", says: "enable operator access or remove the license",
		bad: "{licenseSecretRef: {name: a}, operatorAccess: {disabled: true}}", good: "licenseSecretRef: {name: a}",
	},
	{
		name: "a license of no Secret", kinds: []string{controlPlane}, at: "spec.licenseSecretRef.name", says: `"A": must be the name of a Secret`,
		bad: "licenseSecretRef: {name: A}", good: "licenseSecretRef: {name: a}",
	},
	{
		name: "a license of no key", kinds: []string{controlPlane}, at: "spec.licenseSecretRef.key", says: `"": must be a key of a Secret`,
		bad: "licenseSecretRef: {name: a, key: ''}", good: "licenseSecretRef: {name: a, key: jwt}",
	},
	{
		name: "two pre-shared keys", kinds: []string{controlPlane}, at: "spec.provisionerPSKSecretRef", says: "CODER_PROVISIONER_DAEMON_PSK in spec.extraEnv is a pre-shared key too; keep one",
		bad:  "{provisionerPSKSecretRef: {name: a}, extraEnv: [{name: CODER_PROVISIONER_DAEMON_PSK, value: a}]}",
		good: "extraEnv: [{name: CODER_PROVISIONER_DAEMON_PSK, value: a}]",
	},
	{
		name: "a pre-shared key of no Secret", kinds: []string{controlPlane}, at: "spec.provisionerPSKSecretRef.name", says: `"A": must be the name of a Secret`,
		bad: "provisionerPSKSecretRef: {name: A}", good: "provisionerPSKSecretRef: {name: a}",
	},
	{
		name: "a pre-shared key of no key", kinds: []string{controlPlane}, at: "spec.provisionerPSKSecretRef.key", says: `"a b": must be a key of a Secret`,
		bad: "provisionerPSKSecretRef: {name: a, key: a b}", good: "provisionerPSKSecretRef: {name: a, key: b}",
	},
	{
		name: "a token of no Secret", kinds: []string{controlPlane}, at: "spec.operatorAccess.tokenSecretRef.name", says: `"": must be the name of a Secret`,
		bad: "operatorAccess: {tokenSecretRef: {name: ''}}", good: "operatorAccess: {tokenSecretRef: {name: a}}",
	},
	{
		name: "a token of no key", kinds: []string{controlPlane}, at: "spec.operatorAccess.tokenSecretRef.key", says: `"a b": must be a key of a Secret`,
		bad: "operatorAccess: {tokenSecretRef: {name: a, key: a b}}", good: "operatorAccess: {tokenSecretRef: {name: a, key: a}}",
	},
	{
		name: "a token kept in no Secret", kinds: []string{controlPlane}, at: "spec.operatorAccess.generatedTokenSecretName", says: `"A": must be the name of a Secret`,
		bad: "operatorAccess: {generatedTokenSecretName: A}", good: "operatorAccess: {generatedTokenSecretName: a}",
	},
	{
		name: "a token kept in another Secret of the operator", kinds: []string{controlPlane}, at: "spec.operatorAccess.generatedTokenSecretName", says: "choose another",
		bad: "operatorAccess: {generatedTokenSecretName: coder-initial-admin}", good: "operatorAccess: {generatedTokenSecretName: coder-token}",
	},
	{
		name: "a user of two names", kinds: []string{controlPlane}, at: "spec.initialAdmin.username", says: `"a b": must consist of letters, digits and single dashes`,
		bad: "initialAdmin: {username: a b}", good: "initialAdmin: {username: a-b}",
	},
	{
		name: "a user whose name is a page", kinds: []string{controlPlane}, at: "spec.initialAdmin.username", says: `"new": is a name that Coder keeps for itself; choose another`,
		bad: "initialAdmin: {username: new}", good: "initialAdmin: {username: newer}",
	},
	{
		name: "an address without host", kinds: []string{controlPlane}, at: "spec.initialAdmin.email", says: `"admin": must be an email address, for example`,
		bad: "initialAdmin: {email: admin}", good: "initialAdmin: {email: admin@example.com}",
	},

	{
		name: "provisioners of nobody", kinds: []string{provisioner}, at: "spec", says: "a controlPlaneRef in this namespace or to the Coder at a url; give exactly one",
		bad: "{controlPlaneRef: null}", good: "{}",
	},
	{
		name: "provisioners of two", kinds: []string{provisioner}, at: "spec", says: "give exactly one",
		bad:  "{url: 'https://coder.example.com', pskSecretRef: {name: a}}",
		good: "{controlPlaneRef: null, url: 'https://coder.example.com', pskSecretRef: {name: a}}",
	},
	{
		name: "a control plane of no name", kinds: []string{provisioner, proxy}, at: "spec.controlPlaneRef.name", says: `"a.b": must be the name of a CoderControlPlane`,
		bad: "controlPlaneRef: {name: a.b}", good: "controlPlaneRef: {name: a-b}",
	},
	{
		name: "an address without scheme", kinds: []string{provisioner}, at: "spec.url", says: `"coder.example.com": must be an address that begins with http:// or https://`,
		bad:  "{controlPlaneRef: null, url: coder.example.com, pskSecretRef: {name: a}}",
		good: "{controlPlaneRef: null, url: 'http://coder.example.com:8080', pskSecretRef: {name: a}}",
	},
	{
		name: "a key in another's Coder", kinds: []string{provisioner}, at: "spec.url", says: "give one in spec.key.secretRef, or a pre-shared key in spec.pskSecretRef",
		bad:  "{controlPlaneRef: null, url: 'https://coder.example.com'}",
		good: "{controlPlaneRef: null, url: 'https://coder.example.com', key: {secretRef: {name: a}}}",
	},
	{
		name: "two keys", kinds: []string{provisioner}, at: "spec.pskSecretRef", says: "the daemons log in with it or with spec.key.secretRef; give one",
		bad: "{pskSecretRef: {name: a}, key: {secretRef: {name: a}}}", good: "pskSecretRef: {name: a}",
	},
	{
		name: "a pre-shared key for another organization", kinds: []string{provisioner}, at: "spec.organizationName",
		says: "daemons with a pre-shared key work for the default organization",
		bad:  "{pskSecretRef: {name: a}, organizationName: other}", good: "{pskSecretRef: {name: a}, organizationName: default}",
	},
	{
		name: "tags of one's own key", kinds: []string{provisioner}, at: "spec.tags", says: "remove spec.tags",
		bad: "{tags: {a: b}, key: {secretRef: {name: a}}}", good: "tags: {a: b}",
	},
	{
		name: "a key in the environment", kinds: []string{provisioner}, at: "spec.extraEnv", says: "give a key of your own in spec.key.secretRef",
		bad: "extraEnv: [{name: CODER_PROVISIONER_DAEMON_KEY, value: a}]", good: "extraEnv: [{name: CODER_PROVISIONER_DAEMON_NAME, value: a}]",
	},
	{
		name: "an organization of two names", kinds: []string{provisioner}, at: "spec.organizationName", says: `"My Team": must be the name of an organization`,
		bad: "organizationName: My Team", good: "organizationName: my-team",
	},
	{
		name: "a key with a blank", kinds: []string{provisioner}, at: "spec.key.name", says: `"a b": must begin with a letter or digit`,
		bad: "key: {name: a b}", good: "key: {name: a_b.c}",
	},
	{
		name: "a key of a reserved name", kinds: []string{provisioner}, at: "spec.key.name", says: `"PSK": is a name that Coder keeps for itself; choose another`,
		bad: "key: {name: PSK}", good: "key: {name: psk2}",
	},
	{
		name: "a reserved name for key and object", kinds: []string{provisioner}, at: "metadata.name", says: "name the key in spec.key.name",
		badName: "psk", bad: "{}", goodName: "psk", good: "key: {name: other}",
	},
	{
		name: "a key kept in no Secret", kinds: []string{provisioner}, at: "spec.key.secretName", says: `"A": must be the name of a Secret`,
		bad: "key: {secretName: A}", good: "key: {secretName: a}",
	},
	{
		name: "a key kept under no key", kinds: []string{provisioner}, at: "spec.key.secretKey", says: `"a/b": must be a key of a Secret`,
		bad: "key: {secretKey: a/b}", good: "key: {secretKey: a.b}",
	},
	{
		name: "a key of no Secret", kinds: []string{provisioner}, at: "spec.key.secretRef.name", says: `"A": must be the name of a Secret`,
		bad: "key: {secretRef: {name: A}}", good: "key: {secretRef: {name: a}}",
	},
	{
		name: "a key of no key", kinds: []string{provisioner}, at: "spec.key.secretRef.key", says: `"": must be a key of a Secret`,
		bad: "key: {secretRef: {name: a, key: ''}}", good: "key: {secretRef: {name: a, key: b}}",
	},
	{
		name: "a key that is always new", kinds: []string{provisioner}, at: "spec.key.rotateAfter", says: `"30m": must be a duration of an hour or more`,
		bad: "key: {rotateAfter: 30m}", good: "key: {rotateAfter: 1h}",
	},
	{
		name: "a pre-shared key of no Secret", kinds: []string{provisioner}, at: "spec.pskSecretRef.name", says: `"A": must be the name of a Secret`,
		bad: "pskSecretRef: {name: A}", good: "pskSecretRef: {name: a}",
	},
	{
		name: "a pre-shared key of no key", kinds: []string{provisioner}, at: "spec.pskSecretRef.key", says: `"": must be a key of a Secret`,
		bad: "pskSecretRef: {name: a, key: ''}", good: "pskSecretRef: {name: a, key: b}",
	},

	{
		name: "a name with a dot", kinds: []string{proxy}, at: "metadata.name", says: "must not contain a dot",
		badName: "a.b", goodName: "a-b",
	},
	{
		name: "the name of Coder itself", kinds: []string{proxy}, at: "metadata.name", says: "name the proxy in spec.bootstrap.proxyName",
		badName: "primary", bad: "{}", goodName: "primary", good: "bootstrap: {proxyName: second}",
	},
	{
		name: "a proxy of nobody", kinds: []string{proxy}, at: "spec", says: "give exactly one",
		bad: "{controlPlaneRef: null}", good: "{}",
	},
	{
		name: "a proxy of two", kinds: []string{proxy}, at: "spec", says: "give exactly one",
		bad:  "{primaryAccessURL: 'https://a', proxySessionTokenSecretRef: {name: a}}",
		good: "{controlPlaneRef: null, primaryAccessURL: 'https://a', proxySessionTokenSecretRef: {name: a}}",
	},
	{
		name: "a token of an unknown Coder", kinds: []string{proxy}, at: "spec.primaryAccessURL", says: "give the access URL of the Coder that made the token",
		bad:  "{controlPlaneRef: null, proxySessionTokenSecretRef: {name: a}}",
		good: "{controlPlaneRef: null, primaryAccessURL: 'https://a', proxySessionTokenSecretRef: {name: a}}",
	},
	{
		name: "another's Coder without token", kinds: []string{proxy}, at: "spec.bootstrap", says: "give both, or controlPlaneRef instead of both",
		bad:  "{controlPlaneRef: null, bootstrap: {coderURL: 'https://a'}}",
		good: "{controlPlaneRef: null, bootstrap: {coderURL: 'https://a', credentialsSecretRef: {name: a}}}",
	},
	{
		name: "a token for another's Coder without address", kinds: []string{proxy}, at: "spec.bootstrap", says: "coderURL and credentialsSecretRef belong together",
		bad: "bootstrap: {credentialsSecretRef: {name: a}}", good: "bootstrap: {displayName: A}",
	},
	{
		name: "a token in the environment", kinds: []string{proxy}, at: "spec.extraEnv", says: "give a token of your own in spec.proxySessionTokenSecretRef",
		bad: "extraEnv: [{name: CODER_PROXY_SESSION_TOKEN, value: a}]", good: "extraEnv: [{name: CODER_VERBOSE, value: 'true'}]",
	},
	{
		name: "a primary without scheme", kinds: []string{proxy}, at: "spec.primaryAccessURL", says: `"a.example.com": must be an address that begins with`,
		bad: "primaryAccessURL: a.example.com", good: "primaryAccessURL: 'https://a.example.com'",
	},
	{
		name: "another's Coder by another protocol", kinds: []string{proxy}, at: "spec.bootstrap.coderURL", says: `"ftp://a": must be an address that begins with`,
		bad:  "{controlPlaneRef: null, bootstrap: {coderURL: 'ftp://a', credentialsSecretRef: {name: a}}}",
		good: "{controlPlaneRef: null, bootstrap: {coderURL: 'http://a', credentialsSecretRef: {name: a}}}",
	},
	{
		name: "a proxy of two names", kinds: []string{proxy}, at: "spec.bootstrap.proxyName", says: `"a b": must consist of letters, digits and single dashes`,
		bad: "bootstrap: {proxyName: a b}", good: "bootstrap: {proxyName: a-b}",
	},
	{
		name: "a proxy that is Coder", kinds: []string{proxy}, at: "spec.bootstrap.proxyName", says: `"Primary": is the name of Coder itself`,
		bad: "bootstrap: {proxyName: Primary}", good: "bootstrap: {proxyName: secondary}",
	},
	{
		name: "a proxy's token kept in no Secret", kinds: []string{proxy}, at: "spec.bootstrap.generatedTokenSecretName", says: `"A": must be the name of a Secret`,
		bad: "bootstrap: {generatedTokenSecretName: A}", good: "bootstrap: {generatedTokenSecretName: a}",
	},
	{
		name: "a proxy's token of no Secret", kinds: []string{proxy}, at: "spec.proxySessionTokenSecretRef.name", says: `"A": must be the name of a Secret`,
		bad:  "{controlPlaneRef: null, primaryAccessURL: 'https://a', proxySessionTokenSecretRef: {name: A}}",
		good: "{controlPlaneRef: null, primaryAccessURL: 'https://a', proxySessionTokenSecretRef: {name: a}}",
	},
	{
		name: "a proxy's token of no key", kinds: []string{proxy}, at: "spec.proxySessionTokenSecretRef.key", says: `"": must be a key of a Secret`,
		bad:  "{controlPlaneRef: null, primaryAccessURL: 'https://a', proxySessionTokenSecretRef: {name: a, key: ''}}",
		good: "{controlPlaneRef: null, primaryAccessURL: 'https://a', proxySessionTokenSecretRef: {name: a, key: b}}",
	},
	{
		name: "an owner's token of no Secret", kinds: []string{proxy}, at: "spec.bootstrap.credentialsSecretRef.name", says: `"A": must be the name of a Secret`,
		bad:  "{controlPlaneRef: null, bootstrap: {coderURL: 'http://a', credentialsSecretRef: {name: A}}}",
		good: "{controlPlaneRef: null, bootstrap: {coderURL: 'http://a', credentialsSecretRef: {name: a}}}",
	},
	{
		name: "an owner's token of no key", kinds: []string{proxy}, at: "spec.bootstrap.credentialsSecretRef.key", says: `"": must be a key of a Secret`,
		bad:  "{controlPlaneRef: null, bootstrap: {coderURL: 'http://a', credentialsSecretRef: {name: a, key: ''}}}",
		good: "{controlPlaneRef: null, bootstrap: {coderURL: 'http://a', credentialsSecretRef: {name: a, key: b}}}",
	},
}

// limits are bounds for which the API server has its own error messages.
var limits = []rule{
	{
		name: "a negative number of pods", kinds: allKinds, at: "spec.replicas", says: "-1: spec.replicas in body should be greater than or equal to 0",
		bad: "replicas: -1", good: "replicas: 0",
	},
	{
		name: "a negative grace period", kinds: allKinds, at: "spec.terminationGracePeriodSeconds", says: "should be greater than or equal to 0",
		bad: "terminationGracePeriodSeconds: -1", good: "terminationGracePeriodSeconds: 0",
	},
	{
		name: "an unknown pull policy", kinds: allKinds, at: "spec.imagePullPolicy", says: `Unsupported value: "Sometimes"`,
		bad: "imagePullPolicy: Sometimes", good: "imagePullPolicy: Always",
	},
	{
		name: "an unknown strategy", kinds: allKinds, at: "spec.deployment.strategy.type", says: `Unsupported value: "OnDelete"`,
		bad: "deployment: {strategy: {type: OnDelete}}", good: "deployment: {strategy: {type: Recreate}}",
	},
	{
		name: "an unknown Service", kinds: servingKinds, at: "spec.service.type", says: `Unsupported value: "ExternalName"`,
		bad: "service: {type: ExternalName}", good: "service: {type: NodePort}",
	},
	{
		name: "a port above all", kinds: servingKinds, at: "spec.service.port", says: "65536: spec.service.port in body should be less than or equal to 65535",
		bad: "service: {port: 65536}", good: "service: {port: 65535}",
	},
	{
		name: "a probe without a pause", kinds: servingKinds, at: "spec.readinessProbe.periodSeconds", says: "should be greater than or equal to 1",
		bad: "readinessProbe: {periodSeconds: 0}", good: "readinessProbe: {periodSeconds: 1}",
	},
	{
		name: "no image", kinds: []string{controlPlane}, at: "spec.image", says: "should be at least 1 chars long",
		bad: "image: ''", good: "image: a",
	},
	{
		name: "a number that is a word", kinds: allKinds, at: "spec.replicas", says: "must be of type integer",
		bad: "replicas: two", good: "replicas: 2",
	},
	{
		name: "a resource that is a word", kinds: allKinds, at: "spec.resources.limits.cpu", says: `Invalid value: "much"`,
		bad: "resources: {limits: {cpu: much}}", good: "resources: {limits: {cpu: 1}}",
	},
}
