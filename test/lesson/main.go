// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command lesson shows what a cloud controller manager does: two Kubernetes clusters in one simulated CloudStack, one
// without and one with the controller, in six chapters. It checks everything that it prints under "Look".
package main

import (
	"bytes"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/internal/console"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/processnode"
	"github.com/csccm/csccm/test/testenv"
)

var (
	//go:embed lesson.yaml
	script []byte
	//go:embed world.yaml
	world []byte

	auto = flag.Bool("auto", false, "do not wait for Enter after each chapter (without a terminal it never waits)")
	ui   = flag.Bool("ui", false, "show both clusters and their cloud on one page in the browser, too")
)

// nodeGrace is the time for which a node may be silent. On a slow machine, four heartbeats may be late.
const nodeGrace = 10 * time.Second

func main() { os.Exit(console.Main("lesson", script, play)) }

// lesson is a run of the lesson.
type lesson struct {
	*console.Player
	cloud *testenv.CloudStack
	page  *page // nil without --ui
}

func play(ctx context.Context, p *console.Player) {
	l := &lesson{Player: p}
	p.Build(ctx)
	p.Say(p.Script.Before)
	l.start(ctx)
	p.At = l.at
	p.Verbs = map[string]console.Verb{
		"cloud":  l.call,
		"rules":  l.rules,
		"calls":  l.calls,
		"forget": l.forget,
		"stop":   l.stop,
	}

	p.Vars["api"], p.Vars["image"] = l.cloud.URL, testenv.ControllerImage
	if *ui {
		l.startPage(ctx)
	}

	if l.waits() {
		c := p.Clusters[console.With]
		p.Printf("\nFor the commands of \"Try\", in a second terminal:\n\nexport WITHOUT=%s WITH=%s PATH=%s:%s:$PATH\n",
			p.Clusters[console.Without].Kubeconfig, c.Kubeconfig, filepath.Dir(c.Kubectl), filepath.Dir(p.Binaries.CLI))
		l.wait(ctx, "Press Enter to begin.")
	}

	p.Play(ctx)
}

// start starts CloudStack and both clusters.
func (l *lesson) start(ctx context.Context) {
	w := must.Get(simulator.LoadWorld(bytes.NewReader(world)))
	l.cloud = must.Get(testenv.StartCloudStack(w)) //nolint:contextcheck // the server outlives the call
	l.Defer(l.cloud.Stop)
	for _, name := range []string{console.Without, console.With} {
		cluster := l.Start(ctx, name, nodeGrace)
		for _, vm := range w.VirtualMachines {
			o := processnode.Options{Name: vm.Name, Address: vm.NICs[0].IP}
			if strings.HasSuffix(vm.Name, "-cp") {
				// Without the label of a control plane node, as in a managed cluster, so that two Pods of the
				// controller run on any node.
				o.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""}
			}
			if vm.Account == name {
				must.Get(cluster.Join(ctx, o))
			}
		}
	}
}

func (l *lesson) waits() bool { return !*auto && console.Terminal() }

// at shows the chapter on the page, and waits for Enter at its end.
func (l *lesson) at(ctx context.Context, number int, ended bool) {
	if l.page != nil {
		l.page.tell(l.Player, number, ended)
	}
	if ended && l.waits() {
		l.wait(ctx, "Press Enter to go on.")
	}
}

func (l *lesson) wait(ctx context.Context, text string) {
	l.Printf("\n%s ", text)
	l.Enter(ctx)
	must.OK(ctx.Err())
}

// stop stops a node's machine, like a power failure.
func (l *lesson) stop(_ context.Context, _ string, names []string) string {
	for _, c := range l.Clusters {
		for _, n := range c.Nodes() {
			if n.Name() == names[0] {
				n.Stop()
				return ""
			}
		}
	}
	panic(fmt.Sprintf("no node %q", names))
}
