package admission

var servingRules = []rule{
	{
		name: "a policy for outside, inside", kinds: servingKinds, at: "spec.service", says: "externalTrafficPolicy has an effect with type NodePort or LoadBalancer only; remove it or set one of these types instead of ClusterIP",
		bad: "service: {externalTrafficPolicy: Local}", good: "service: {type: NodePort, externalTrafficPolicy: Local}",
	},
	{
		name: "a load balancer's address without one", kinds: servingKinds, at: "spec.service", says: "have an effect with type LoadBalancer only; remove them or set that type instead of NodePort",
		bad: "service: {type: NodePort, loadBalancerIP: 203.0.113.10}", good: "service: {type: LoadBalancer, loadBalancerIP: 203.0.113.10}",
	},
	{
		name: "a node port without one", kinds: servingKinds, at: "spec.service", says: "remove them or set one of these types instead of ClusterIP",
		bad: "service: {httpNodePort: 30080}", good: "service: {type: NodePort, httpNodePort: 30080}",
	},
	{
		name: "one node port for two", kinds: servingKinds, at: "spec.service", says: "must differ; change one of them",
		bad:  "{service: {type: NodePort, httpNodePort: 30080, httpsNodePort: 30080}, tls: {secretNames: [a]}}",
		good: "{service: {type: NodePort, httpNodePort: 30080, httpsNodePort: 30443}, tls: {secretNames: [a]}}",
	},
	{
		name: "an address that is a name", kinds: servingKinds, at: "spec.service.loadBalancerIP", says: `"lb.example.com": must be an IP address`,
		bad: "service: {type: LoadBalancer, loadBalancerIP: lb.example.com}", good: "service: {type: LoadBalancer, loadBalancerIP: '2001:db8::1'}",
	},
	{
		name: "a network without a length", kinds: servingKinds, at: "spec.service.loadBalancerSourceRanges[0]", says: `"203.0.113.0": must be a network`,
		bad: "service: {type: LoadBalancer, loadBalancerSourceRanges: [203.0.113.0]}", good: "service: {type: LoadBalancer, loadBalancerSourceRanges: [203.0.113.0/24]}",
	},
	{
		name: "a policy of families that is none", kinds: servingKinds, at: "spec.service.ipFamilyPolicy", says: `Unsupported value: "DualStack"`,
		bad: "service: {ipFamilyPolicy: DualStack}", good: "service: {ipFamilyPolicy: RequireDualStack}",
	},
	{
		name: "a family that is none", kinds: servingKinds, at: "spec.service.ipFamilies[0]", says: `Unsupported value: "ipv6"`,
		bad: "service: {ipFamilies: [ipv6]}", good: "service: {ipFamilies: [IPv6]}",
	},
	{
		name: "a family twice", kinds: servingKinds, at: "spec.service.ipFamilies[1]", says: `Duplicate value: "IPv6"`,
		bad: "service: {ipFamilies: [IPv6, IPv6]}", good: "service: {ipFamilies: [IPv6, IPv4]}",
	},
	{
		name: "two families in a single stack", kinds: servingKinds, at: "spec.service", says: "ipFamilies names two families, but ipFamilyPolicy is SingleStack; name one, or set PreferDualStack or RequireDualStack",
		bad: "service: {ipFamilyPolicy: SingleStack, ipFamilies: [IPv4, IPv6]}", good: "service: {ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv4, IPv6]}",
	},
	{
		name: "an HTTPS port without TLS", kinds: servingKinds, at: "spec.service.httpsNodePort", says: "give a certificate or remove the node port",
		bad: "service: {type: NodePort, httpsNodePort: 30443}", good: "{service: {type: NodePort, httpsNodePort: 30443}, tls: {secretNames: [a]}}",
	},
	{
		name: "a certificate of no Secret", kinds: servingKinds, at: "spec.tls.secretNames[0]", says: `"": must be the name of a Secret`,
		bad: "tls: {secretNames: ['']}", good: "tls: {secretNames: [coder-tls]}",
	},
	{
		name: "a certificate twice", kinds: servingKinds, at: "spec.tls.secretNames[1]", says: `Duplicate value: "a"`,
		bad: "tls: {secretNames: [a, a]}", good: "tls: {secretNames: [a, b]}",
	},
	{
		name: "a liveness probe that waits for two", kinds: servingKinds, at: "spec.livenessProbe.successThreshold", says: "must be 1",
		bad: "livenessProbe: {enabled: true, successThreshold: 2}", good: "{livenessProbe: {enabled: true, successThreshold: 1}, readinessProbe: {successThreshold: 2}}",
	},
	{
		name: "a way to a Service that is not there", kinds: []string{controlPlane}, at: "spec.expose", says: "enable the Service or remove spec.expose",
		bad:  "{operatorAccess: {disabled: true}, service: {enabled: false}, expose: {ingress: {host: a.example.com}}}",
		good: "{operatorAccess: {disabled: true}, service: {enabled: false}}",
	},
	{
		name: "a way to a Service that is not there", kinds: []string{proxy}, at: "spec.expose", says: "enable the Service or remove spec.expose",
		bad: "{service: {enabled: false}, expose: {ingress: {host: a.example.com}}}", good: "service: {enabled: false}",
	},
}

var exposeRules = []rule{
	{
		name: "both ways out", kinds: servingKinds, at: "spec.expose", says: "spec.expose takes an ingress or a gateway, not both",
		bad:  "expose: {ingress: {host: a.example.com}, gateway: {host: a.example.com, parentRefs: [{name: a}]}}",
		good: "expose: {gateway: {host: a.example.com, parentRefs: [{name: a}]}}",
	},
	{
		name: "an Ingress without host", kinds: servingKinds, at: "spec.expose.ingress.host", says: "Required value",
		bad: "expose: {ingress: {}}", good: "expose: {ingress: {host: a}}",
	},
	{
		name: "a URL for a host", kinds: servingKinds, at: "spec.expose.ingress.host", says: `"https://a.example.com": must be a DNS name in lower case without scheme, port or path`,
		bad: "expose: {ingress: {host: 'https://a.example.com'}}", good: "expose: {ingress: {host: a.example.com}}",
	},
	{
		name: "a host with a long label", kinds: servingKinds, at: "spec.expose.gateway.host", says: "must be a DNS name",
		bad:  "expose: {gateway: {parentRefs: [{name: a}], host: a123456789012345678901234567890123456789012345678901234567890123.example.com}}",
		good: "expose: {gateway: {parentRefs: [{name: a}], host: a12345678901234567890123456789012345678901234567890123456789012.example.com}}",
	},
	{
		name: "an address for a host", kinds: servingKinds, at: "spec.expose.ingress.host", says: `"203.0.113.10": must be a name and not an IP address`,
		bad: "expose: {ingress: {host: 203.0.113.10}}", good: "expose: {ingress: {host: 203.0.113.10.nip.io}}",
	},
	{
		name: "an address for a Gateway's host", kinds: servingKinds, at: "spec.expose.gateway.host", says: `"203.0.113.10": must be a name and not an IP address`,
		bad: "expose: {gateway: {parentRefs: [{name: a}], host: 203.0.113.10}}", good: "expose: {gateway: {parentRefs: [{name: a}], host: a.example.com}}",
	},
	{
		name: "a wildcard in the middle", kinds: servingKinds, at: "spec.expose.ingress.wildcardHost", says: `"apps-*.example.com": must be a * in front of a domain`,
		bad: "expose: {ingress: {host: a.example.com, wildcardHost: 'apps-*.example.com'}}", good: "expose: {ingress: {host: a.example.com, wildcardHost: '*-apps.example.com'}}",
	},
	{
		name: "a wildcard that is none", kinds: servingKinds, at: "spec.expose.gateway.wildcardHost", says: `"apps.example.com": must be a * in front of a domain`,
		bad:  "expose: {gateway: {parentRefs: [{name: a}], host: a.example.com, wildcardHost: apps.example.com}}",
		good: "expose: {gateway: {parentRefs: [{name: a}], host: a.example.com, wildcardHost: '*.apps.example.com'}}",
	},
	{
		name: "a wildcard's certificate without wildcard", kinds: servingKinds, at: "spec.expose.ingress", says: "tls.wildcardSecretName holds the certificate of wildcardHost, which is not set; set it",
		bad:  "expose: {ingress: {host: a.example.com, tls: {wildcardSecretName: w}}}",
		good: "expose: {ingress: {host: a.example.com, wildcardHost: '*.example.com', tls: {wildcardSecretName: w}}}",
	},
	{
		name: "an Ingress class without name", kinds: servingKinds, at: "spec.expose.ingress.className", says: `"": must be the name of an IngressClass; leave it out`,
		bad: "expose: {ingress: {host: a.example.com, className: ''}}", good: "expose: {ingress: {host: a.example.com, className: nginx}}",
	},
	{
		name: "an Ingress certificate of no Secret", kinds: servingKinds, at: "spec.expose.ingress.tls.secretName", says: `"A": must be the name of a Secret`,
		bad: "expose: {ingress: {host: a.example.com, tls: {secretName: A}}}", good: "expose: {ingress: {host: a.example.com, tls: {secretName: a}}}",
	},
	{
		name: "a wildcard certificate of no Secret", kinds: servingKinds, at: "spec.expose.ingress.tls.wildcardSecretName", says: `"A": must be the name of a Secret`,
		bad:  "expose: {ingress: {host: a.example.com, wildcardHost: '*.example.com', tls: {wildcardSecretName: A}}}",
		good: "expose: {ingress: {host: a.example.com, wildcardHost: '*.example.com', tls: {wildcardSecretName: a}}}",
	},
	{
		name: "no Gateway", kinds: servingKinds, at: "spec.expose.gateway.parentRefs", says: "should have at least 1 items",
		bad: "expose: {gateway: {host: a.example.com, parentRefs: []}}", good: "expose: {gateway: {host: a.example.com, parentRefs: [{name: a}]}}",
	},
	{
		name: "a Gateway without name", kinds: servingKinds, at: "spec.expose.gateway.parentRefs[0].name", says: `"": must be the name of a Gateway or ListenerSet`,
		bad: "expose: {gateway: {host: a.example.com, parentRefs: [{name: ''}]}}", good: "expose: {gateway: {host: a.example.com, parentRefs: [{name: a}]}}",
	},
	{
		name: "a Gateway in no namespace", kinds: servingKinds, at: "spec.expose.gateway.parentRefs[0].namespace", says: `"": must be the name of a namespace`,
		bad: "expose: {gateway: {host: a.example.com, parentRefs: [{name: a, namespace: ''}]}}", good: "expose: {gateway: {host: a.example.com, parentRefs: [{name: a, namespace: b}]}}",
	},
	{
		name: "a listener without name", kinds: servingKinds, at: "spec.expose.gateway.parentRefs[0].sectionName", says: `"": must be the name of a listener`,
		bad: "expose: {gateway: {host: a.example.com, parentRefs: [{name: a, sectionName: ''}]}}", good: "expose: {gateway: {host: a.example.com, parentRefs: [{name: a, sectionName: https}]}}",
	},
	{
		name: "a parent twice", kinds: servingKinds, at: "spec.expose.gateway.parentRefs", says: "remove one of them",
		bad:  "expose: {gateway: {host: a.example.com, parentRefs: [{name: a}, {name: a, kind: Gateway}]}}",
		good: "expose: {gateway: {host: a.example.com, parentRefs: [{name: a}, {name: a, kind: ListenerSet}, {name: a, port: 443}, {name: a, sectionName: https}, {name: a, namespace: b}]}}",
	},
	{
		name: "a parent of another kind", kinds: servingKinds, at: "spec.expose.gateway.parentRefs[0].kind", says: `Unsupported value: "Service"`,
		bad: "expose: {gateway: {host: a.example.com, parentRefs: [{name: a, kind: Service}]}}", good: "expose: {gateway: {host: a.example.com, parentRefs: [{name: a, kind: ListenerSet}]}}",
	},
}

var transitions = []transition{
	{
		name: "a record of another kind", kinds: []string{record}, object: "ws-pending-a", at: "spec", says: "kind cannot be changed",
		before: "uid: null", bad: "{uid: null, kind: CoderTemplate}", good: "{uid: null, name: coder.ada.other}",
	},
	{
		name: "a record of another control plane", kinds: []string{record}, object: "ws-pending-b", at: "spec", says: "controlPlane cannot be changed",
		before: "{uid: null, controlPlane: a}", bad: "{uid: null, controlPlane: b}", good: "{uid: null, controlPlane: a, name: coder.ada.other}",
	},
	{
		name: "another load balancer class", kinds: servingKinds, at: "spec.service", says: "loadBalancerClass cannot change while the type is LoadBalancer, because Kubernetes does not allow it; set another type first",
		before: "service: {type: LoadBalancer, loadBalancerClass: a}", bad: "service: {type: LoadBalancer, loadBalancerClass: b}", good: "service: {type: NodePort}",
	},
	{
		name: "another first family", kinds: servingKinds, at: "spec.service", says: "the first family cannot change, because Kubernetes does not allow it; add the other one after it",
		before: "service: {ipFamilies: [IPv4]}", bad: "service: {ipFamilies: [IPv6, IPv4]}", good: "service: {ipFamilies: [IPv4, IPv6], ipFamilyPolicy: PreferDualStack}",
	},
	{
		name: "a load balancer class later", kinds: servingKinds, at: "spec.service", says: "set another type first",
		before: "service: {type: LoadBalancer}", bad: "service: {type: LoadBalancer, loadBalancerClass: b}", good: "service: {type: LoadBalancer, port: 8080}",
	},
	{
		name: "no load balancer class any more", kinds: servingKinds, at: "spec.service", says: "set another type first",
		before: "service: {type: LoadBalancer, loadBalancerClass: a}", bad: "service: {type: LoadBalancer}", good: "service: {type: LoadBalancer, loadBalancerClass: a, port: 8080}",
	},
	{
		name: "a load balancer class from the beginning", kinds: servingKinds, at: "spec.service", says: "have an effect with type LoadBalancer only",
		before: "service: {type: ClusterIP}", bad: "service: {type: ClusterIP, loadBalancerClass: a}", good: "service: {type: LoadBalancer, loadBalancerClass: a}",
	},
}
