// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/testenv/script"
)

// A change waits until the previous one has taken effect. Changes of one group happen at the same time, except
// those of the group alone.
const (
	alone = iota
	atOnce
	byOperator
	ofNodes
)

var verbs = map[string]int{
	"service":      atOnce,
	"apply":        atOnce,
	"wait":         atOnce,
	"set":          atOnce,
	"start":        atOnce,
	"heal":         atOnce,
	"namespace":    atOnce,
	"api-fails":    atOnce,
	"api-works":    atOnce,
	"deletes":      atOnce,
	"silent":       atOnce,
	"by-hand":      byOperator,
	"delete-rules": byOperator,
	"endpoints":    ofNodes,
	"join":         ofNodes,
	"leave":        ofNodes,
	"label":        ofNodes,
	"annotate":     ofNodes,
	"taint":        ofNodes,
	"untaint":      ofNodes,
	"ready":        ofNodes,
	"unready":      ofNodes,
	"address":      ofNodes,
	"attach":       ofNodes,
	"provider-id":  ofNodes,
}

// expand replaces $NAME and ${NAME}.
func (p *player) expand(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = os.Expand(w, func(name string) string { return p.vars[name] })
	}
	return out
}

// learn records the addresses of Services, also of those that are being deleted.
func (p *player) learn() {
	list, err := p.kube.CoreV1().Services(metav1.NamespaceAll).List(p.t.Context(), metav1.ListOptions{})
	require.NoError(p.t, err)
	for _, s := range list.Items {
		for _, in := range s.Status.LoadBalancer.Ingress {
			key := s.Namespace + "/" + s.Name
			p.vars[key] = cmp.Or(in.IP, p.vars[key])
			if s.Namespace == metav1.NamespaceDefault {
				p.vars[s.Name] = p.vars[key]
			}
		}
	}
}

// Do implements script.Driver:
//
//	service KEY CHANGE ..., edit KEY CHANGE ...   see script.Change
//	apply NAME                                    the Services of docs/examples, each with a ready Pod on the first
//	                                              node
//	KEY*3                                         means KEY0, KEY1, KEY2
//	delete KEY, deletes KEY (without a wait), vanish KEY (without its finalizer)
//	endpoints KEY w1 w2:ending                    ready endpoints, and terminating ones
//	join w3 [IP], leave w3, label w1 a=b, annotate w1 a=b, taint w1 KEY, untaint w1, unready w1, ready w1,
//	address w1 IP, attach w1 VOLUME, provider-id w1 ID
//	stop, start, restart SETTING, set SETTING     the controller; SETTING changes its setup
//	wait 5m; reset (calls and Events); note NAME (the dump); let NAME VALUE
//	fault COMMAND:KIND:..., heal                  see simulator.ParseFault
//	answer 502 TEXT, answer without w1 w2, answer short w1 w2, answer no-addresses,
//	answer timezone                               until heal; see around
//	kubelets w1 w2                                renew their leases
//	silent w1                                     until heal, the kubelet neither renews its lease nor answers
//	by-hand COMMAND a=b ... > NAME                as an operator; see refer
//	certify NAME                                  a new certificate of the account
//	acquire NAME [IP], reserve IP, release ADDRESS            as another user of the account
//	delete-rules ADDRESS                          deletes all rules on the address
//	namespace NAME a=b; api-fails VERB RESOURCE, api-works
func (p *player) Do(s *script.Step) error {
	if group := verbs[s.Verb]; group != atOnce && (group == alone || group != verbs[p.last]) {
		p.settled()
	}

	synctest.Wait()
	p.learn()
	defer func() {
		if p.last = s.Verb; s.Verb == "wait" {
			p.dirty = false
		} else if !slices.Contains([]string{"reset", "note", "let", "fault", "heal"}, s.Verb) {
			p.dirty = true
		}
	}()

	w := append(p.expand(s.Words), p.expand(s.Text)...)
	if prefix, n, many := strings.Cut(s.Word(0), "*"); many && s.Verb != "fault" {
		number, err := strconv.Atoi(n)
		for i := range number {
			one := &script.Step{
				Verb:  s.Verb,
				Words: append([]string{fmt.Sprint(prefix, i)}, s.Words[1:]...),
				Text:  s.Text,
			}
			err = errors.Join(err, p.Do(one))
			p.dirty = false // the changes happen at the same time
		}
		return err
	}

	switch s.Verb {
	case "service":
		p.create(w[0], nil, changed(p.t, w[1:]))
	case "apply":
		return p.applyExample(w[0])
	case "edit":
		p.edit(w[0], changed(p.t, w[1:]))
	case "delete":
		p.remove(w[0])
	case "deletes":
		p.deletes(w[0])
	case "vanish":
		p.vanishes(w[0])
	case "endpoints":
		p.endpoints(w[0], w[1:])
	case "join":
		p.joins(w[0], w[1:]...)
	case "leave":
		p.leaves(w[0])
	case "label", "annotate", "provider-id", "attach", "address", "taint", "untaint", "ready", "unready":
		p.node(w[0], changeNode(s.Verb, w[1:]...))
	case "api-fails":
		p.broken.Store(true)
		p.react(w[0], w[1], func(clienttesting.Action) (bool, runtime.Object, error) {
			return p.broken.Load(), nil, errors.New("the API server is broken")
		})

	case "api-works":
		p.broken.Store(false)
	case "stop":
		p.stop()
	case "start":
		p.start()
	case "restart", "set":
		if s.Verb == "restart" {
			p.stop()
		}
		if len(w) > 0 && !configure(p.t, &p.setup, &script.Step{Verb: w[0], Words: w[1:]}) {
			return errors.New("no setting of this name")
		}
		if s.Verb == "restart" {
			p.start()
		}

	case "answer":
		p.answer.Store(&w)
	case "kubelets":
		for _, node := range w {
			p.kubelet(node)
		}

	case "silent":
		p.silent.Store(w[0], true)
	case "wait":
		d, err := time.ParseDuration(w[0])
		time.Sleep(d)
		return err

	case "reset":
		p.count()
	case "note":
		p.dumps[w[0]] = p.dump()
	case "let":
		p.vars[w[0]] = p.refer(w[1])
	case "fault":
		f, err := simulator.ParseFault(strings.TrimPrefix(s.Line, "fault ")) // the fault's text has spaces and quotes
		if err != nil {
			return err
		}
		f.Caller = "ccm"
		p.faults = append(p.faults, p.Inject(f))

	case "heal":
		if err := p.hit(); err != nil {
			return err
		}
		for _, remove := range p.faults {
			remove()
		}
		p.faults = nil
		p.answer.Store(nil)
		p.silent.Clear()

	case "by-hand":
		return p.byHand(w)
	case "certify":
		p.vars[w[0]] = p.uploadCertificate()
	case "acquire":
		ip := ""
		if len(w) > 1 {
			ip = w[1]
		}
		id := p.did(p.inspect.AssociateIP(p.t.Context(),
			cloudstack.AssociateIPRequest{NetworkID: p.net("k8s-net").ID, Address: ip}))
		p.vars[w[0]] = p.snapshot()[id].Address

	case "reserve":
		return p.inspect.Call(p.t.Context(), "reserveIpAddress", cloudstack.Params{"id": p.anyAddress(w[0]).ID},
			&struct{}{})
	case "release":
		p.did(p.inspect.DisassociateIP(p.t.Context(), p.on(p.at(w[0])).ID))
	case "delete-rules":
		p.deleteRules(p.at(w[0]))
	case "namespace":
		key, value, _ := strings.Cut(w[1], "=")
		ns := &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{
				Name:   w[0],
				UID:    types.UID("uid-of-" + w[0]),
				Labels: map[string]string{key: value},
			},
		}
		_, err := p.kube.CoreV1().Namespaces().Create(p.t.Context(), ns, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			_, err = p.kube.CoreV1().Namespaces().Update(p.t.Context(), ns, metav1.UpdateOptions{})
		}
		return err

	default:
		return errors.New("nothing of this name can be done")
	}

	return nil
}

// applyExample creates the Services of an example.
func (p *player) applyExample(name string) error {
	raw, err := os.ReadFile("../../docs/examples/" + name + "/manifest.yaml")
	for document := range strings.SplitSeq(string(raw), "\n---\n") {
		var example corev1.Service
		if strings.Contains(document, "\nkind: Service\n") {
			err = errors.Join(err, yaml.UnmarshalStrict([]byte(document), &example))
		}
		if example.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		p.create(example.Name, nil, func(s *corev1.Service) {
			s.Annotations, s.Spec = example.Annotations, example.Spec
			for i, port := range s.Spec.Ports {
				s.Spec.Ports[i].NodePort = portOf(port.Protocol, port.Port).NodePort
			}
		})
		p.endpoints(example.Name, p.setup.nodes[:1])
	}

	return err
}

// hit returns an error if a fault has hit no call.
func (p *player) hit() error {
	for _, f := range p.Faults() {
		if f.Hits == 0 {
			return fmt.Errorf("the fault %s was not hit", f.Fault)
		}
	}
	return nil
}

// settled waits until the last change has had its effect.
func (p *player) settled() {
	if p.dirty {
		time.Sleep(settle)
		p.dirty = false
	}
	synctest.Wait()
	p.learn()
}

// changed returns a change of a Service. New ports get the node ports of portOf.
func changed(t *testing.T, words []string) func(*corev1.Service) {
	t.Helper()
	return func(s *corev1.Service) {
		require.NoError(t,
			script.Change(s, words,
				func(protocol corev1.Protocol, number int32, old *corev1.ServicePort) corev1.ServicePort {
					if old != nil {
						return *old
					}
					return portOf(protocol, number)
				}))
	}
}

// portOf returns a port of a Service with its node port.
func portOf(protocol corev1.Protocol, number int32) corev1.ServicePort {
	if protocol == corev1.ProtocolUDP {
		udp := &corev1.Service{}
		withUDP(int(number))(udp)
		return udp.Spec.Ports[0]
	}
	return servicePorts(int(number))[0]
}

// changeNode returns the change of a Node that a verb names.
func changeNode(verb string, w ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		switch verb {
		case "label":
			key, value, _ := strings.Cut(w[0], "=")
			if metav1.SetMetaDataLabel(&n.ObjectMeta, key, value); value == "" {
				delete(n.Labels, key)
			}

		case "annotate":
			key, value, _ := strings.Cut(w[0], "=")
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, key, value)
		case "provider-id":
			n.Spec.ProviderID = w[0]
		case "attach":
			n.Status.VolumesAttached = nil
			for _, volume := range w {
				n.Status.VolumesAttached = append(n.Status.VolumesAttached,
					corev1.AttachedVolume{Name: corev1.UniqueVolumeName(volume)})
			}

		case "address":
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: w[0]}}
		case "taint":
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: w[0], Effect: corev1.TaintEffectNoSchedule})
		case "untaint":
			n.Spec.Taints = nil
		case "ready":
			n.Status.Conditions[0].Status = corev1.ConditionTrue
		case "unready":
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
		}
	}
}

// anyAddress returns a public address of the cloud, even if no account has acquired the address.
func (p *player) anyAddress(ip string) cloudstack.PublicIP {
	all := false
	list, err := p.inspect.ListPublicIPs(p.t.Context(),
		cloudstack.PublicIPQuery{Address: p.at(ip), AllocatedOnly: &all})
	require.NoError(p.t, err)
	require.Len(p.t, list, 1)
	return list[0]
}

// byHand makes a call as an administrator, and stores the ID of the result under a name if the words end in one.
func (p *player) byHand(words []string) error {
	words, name := named(words)
	var pairs []string
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		pairs = append(pairs, key, p.refer(value))
	}
	answer := p.Admin(words[0], pairs...)
	if name != "" {
		p.vars[name] = madeBy(answer)
	}
	return nil
}

// named removes "> NAME" from the end of words and returns the name; empty if there is none.
func named(words []string) (rest []string, name string) {
	if n := len(words); n > 2 && words[n-2] == ">" {
		return words[:n-2], words[n-1]
	}
	return words, ""
}

// madeBy returns the ID of the object that a command has created, from the command's answer.
func madeBy(answer map[string]any) string {
	for _, v := range answer {
		if o, ok := v.(map[string]any); ok { // the answer of a command without a job
			answer = o
		}
	}
	id, _ := answer["id"].(string)
	return id
}

// refer returns the ID, or another property, of an object: address:WEB, ip:WEB, rule:WEB:80, firewall:WEB:80,
// forward:WEB:53, vm:w1, network:NAME, acl:NETWORK, vpc:NETWORK, annotation:KEY:NAME, lead:WEB (the node of its port
// forwardings), other:WEB (w1 or w2, which is not that node), claim:WEB (the fields of a record that claims its
// address), job:COMMAND, ago:1h (a time).
func (p *player) refer(text string) string {
	kind, name, _ := strings.Cut(text, ":")
	name, port, _ := strings.Cut(name, ":")
	number, _ := strconv.Atoi(port)
	switch kind {
	case "ip":
		return p.at(name)
	case "address", "rule", "firewall", "forward":
		id := p.on(p.at(name)).idOf(kind, number)
		require.NotEmpty(p.t, id, "there is no %s", text)
		return id

	case "vm":
		return p.vm(name)
	case "network":
		return p.net(name).ID
	case "acl":
		return p.net(name).ACLID
	case "vpc":
		return p.net(name).VPCID
	case "annotation":
		return p.get(name).Annotations[annotation.Prefix+port]
	case "claim":
		a := p.on(p.at(name))
		return fmt.Sprintf(`"id":%q,"ip":%q,"network":%q,"allocated":true`, a.ID, a.Address, a.AssociatedNetworkID)
	case "job":
		return p.Ledger().Find(name, "ccm")[0].JobID
	case "ago":
		d, _ := time.ParseDuration(name)
		return time.Now().Add(-d).UTC().Format(time.RFC3339)
	case "lead":
		return p.ledTo(p.ip(name))[0]
	case "other":
		return map[string]string{"w1": "w2", "w2": "w1"}[p.ledTo(p.ip(name))[0]]
	default:
		return text
	}
}

// at returns the address of a Service; an address is returned unchanged.
func (p *player) at(name string) string { return cmp.Or(p.vars[name], name) }
