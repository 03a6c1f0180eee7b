// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provider implements cloudprovider.Interface for CloudStack. It connects Kubernetes' cloud controllers to the
// packages that do the work, and provides their Events and metrics.
package provider

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/apply"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/registration"
	"github.com/csccm/csccm/pkg/selftest"
	"github.com/csccm/csccm/pkg/service"
)

const (
	// Name is the provider's name, the value of --cloud-provider; it is upstream's.
	Name = "external-cloudstack"
	// Alias is accepted as well: it is the name of the provider that was part of Kubernetes.
	Alias = "cloudstack"

	component = "cloudstack-cloud-controller-manager"
	// serviceComponent is the component name of Kubernetes' own service controller, because tools look for its Events.
	serviceComponent = "service-controller"
)

// Provider implements cloudprovider.Interface for one project of one CloudStack.
type Provider struct {
	config    *cloudstack.Config
	options   Options
	settings  settings
	client    *cloudstack.Client
	inventory *inventory.Inventory
	instances *node.Nodes
	services  *service.Controller // nil before Initialize
	outage    *outage

	clusterUID    atomic.Pointer[string] // the UID of namespace kube-system; see readClusterUID
	clientOptions []cloudstack.Option
	reloader      *reloader // nil unless the framework made the provider
	state         atomic.Pointer[State]

	initialize   sync.Once
	kube         kubernetes.Interface // set by Initialize
	nodeCache    cached[corev1.Node]
	serviceCache cached[corev1.Service]
}

var _ cloudprovider.InformerUser = (*Provider)(nil)

// Register makes the provider known to the framework under Name and Alias. The options are read when the
// framework asks for the provider, after flags are parsed.
func Register(o *Options) {
	factory := func(r io.Reader) (cloudprovider.Interface, error) {
		text, err := io.ReadAll(r)
		if err != nil {
			return nil, fmt.Errorf("cloud-config: %w", err)
		}
		cfg, err := cloudconfig.Parse(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		for _, w := range cfg.Warnings() {
			klog.InfoS("The cloud-config works, but", "hint", w)
		}
		p, err := New(cfg, *o)
		if err != nil {
			return nil, err
		}
		p.reloader = newReloader(p, text)
		return p, nil
	}

	cloudprovider.RegisterCloudProvider(Name, factory)
	cloudprovider.RegisterCloudProvider(Alias, factory)
}

// New returns a provider. It makes no API call, so the controller starts even if CloudStack is down.
func New(cfg *cloudstack.Config, o Options, clientOptions ...cloudstack.Option) (*Provider, error) {
	cfg.CABundle = o.CABundle
	clientOptions = append(clientOptions, cloudstack.WithWriteGate(o.WriteGate))
	silence := &outage{clock: o.Clock}
	watched := append(slices.Clip(clientOptions),
		cloudstack.WithObserver(silence.observe),
		cloudstack.WithRateLimitLog(func(limit string) { klog.InfoS("The rate limit of API calls", "limit", limit) }),
	)

	client, err := cloudstack.NewClient(cfg, watched...)
	if err != nil {
		return nil, err
	}

	p, err := assemble(cfg, o, client)
	if err != nil {
		return nil, err
	}

	if err := p.checkClusterID(); err != nil {
		return nil, err
	}

	p.clientOptions, p.outage = clientOptions, silence
	p.use(cfg)
	return p, nil
}

// assemble returns a Provider with the parts that Nodes need.
func assemble(cfg *cloudstack.Config, o Options, client *cloudstack.Client) (*Provider, error) {
	settings, err := o.parse()
	if err != nil {
		return nil, err
	}

	settings.metadata.Region = cfg.Region
	p := &Provider{config: cfg, options: o, settings: settings, client: client}
	p.nodeCache.kind, p.serviceCache.kind = "Nodes", "Services"
	p.inventory = p.inventoryOf(cfg.ProjectID)
	p.instances = node.New(node.Deps{
		VMs:          p.inventory,
		List:         p.nodeCache.list,
		Metadata:     settings.metadata,
		Limit:        o.DeletionGuard,
		OutOfService: settings.outOfService,
		Adopt:        o.AdoptNodes,
		Clock:        o.Clock,
	})

	return p, nil
}

// Initialize connects the provider to the cluster. It starts our controllers beside those of the framework; they end
// when stop is closed.
func (p *Provider) Initialize(clientBuilder cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	// With leader migration the framework calls this once per lock.
	p.initialize.Do(func() {
		kube, err := clientBuilder.Client(component)
		if err != nil {
			// The framework's interface cannot return an error.
			klog.ErrorS(err, "No client for the API server")
			klog.FlushAndExit(klog.ExitFlushTimeout, 1)
		}
		p.start(kube, stop)
	})
}

func (p *Provider) start(kube kubernetes.Interface, stop <-chan struct{}) {
	ctx := wait.ContextForChannel(stop)
	p.kube = kube
	p.services = service.New(p.serviceDeps(kube, newRecorder(ctx, kube, serviceComponent)))
	context.AfterFunc(ctx, p.services.Stop) // even if StartServices is not called

	if p.options.RegisterMetrics != nil {
		p.options.RegisterMetrics(append(slices.Concat(p.services.Metrics(), p.instances.Metrics()), p.inventory)...)
	}

	go p.contact(ctx)
	p.instances.Start(ctx, kube, newRecorder(ctx, kube, component))
	if p.options.RegisterCluster != "" {
		go func() {
			if p.awaitClusterUID(ctx, kube) {
				entry := &registration.Controller{
					API:       p.client,
					Inventory: p.inventory,
					Name:      p.options.RegisterCluster,
					ClusterID: p.uid(),
					Nodes:     p.nodeCache.list,
				}
				entry.Run(ctx)
			}
		}()
	}
}

// StartServices runs our own controller of Services instead of Kubernetes' own. It is called after Initialize, and
// before the informers of the factory start.
func (p *Provider) StartServices(ctx context.Context, factory informers.SharedInformerFactory, workers int) error {
	informer := factory.Core().V1().Services().Informer()
	p.serviceCache.informer.Store(&informer)

	err := informer.SetTransform(service.Cached)
	seen, err1 := informer.AddEventHandler(p.services.ServiceHandler())
	seenNodes, err2 := factory.Core().V1().Nodes().Informer().AddEventHandler(p.services.NodeHandler())
	if err := errors.Join(err, err1, err2); err != nil {
		return err
	}

	go func() {
		if p.awaitClusterUID(ctx, p.kube) && cache.WaitForCacheSync(ctx.Done(), seen.HasSynced, seenNodes.HasSynced) {
			p.services.Run(ctx, workers)
		}
	}()
	return nil
}

// cached is the cache of one of the framework's informers.
type cached[T any] struct {
	kind     string // for the error
	informer atomic.Pointer[cache.SharedIndexInformer]
}

// list lists the objects in the cache.
func (k *cached[T]) list() ([]*T, error) {
	c := k.informer.Load()
	if c == nil || !(*c).HasSynced() {
		return nil, errors.New("the list of " + k.kind + " is not loaded yet")
	}
	objects := (*c).GetStore().List()
	out := make([]*T, 0, len(objects))
	for _, object := range objects {
		out = append(out, object.(*T)) //nolint:forcetypeassert // the informer has no others
	}
	return out, nil
}

// serviceDeps returns the dependencies of the controller of Services.
func (p *Provider) serviceDeps(kube kubernetes.Interface, recorder service.Recorder) service.Deps {
	o := &p.options
	return service.Deps{
		Options: loadbalancer.Options{
			API:         apply.API{Reader: p.client, Client: p.client},
			ClusterIDs:  p.clusterIDs,
			ClusterName: o.ClusterName,
			DriftPeriod: o.DriftPeriod,
			Policy:      plan.Policy(o.Policy),
			LeaveACLs:   !o.ManageNetworkACLs,
		},
		Mode:         cmp.Or(o.LBMode, p.config.LBMode),
		Inventory:    p.inventory,
		InventoryOf:  p.inventoryOf,
		Kube:         kube,
		Recorder:     recorder,
		Services:     p.serviceCache.list,
		Nodes:        p.nodeCache.list,
		CleanOrphans: o.CleanOrphans,
		SuspectAfter: o.DirectSuspectAfter,
		Probe:        o.ProbeKubelet,
		Tenancy:      p.settings.tenancy,
		Classes:      o.LBClasses,
		Clock:        o.Clock,
	}
}

// SelfTest checks that the controller can work with the cloud-config, and writes its results to out.
func (p *Provider) SelfTest(ctx context.Context, out io.Writer) error {
	t := &selftest.Test{
		Config:   p.config,
		Client:   p.client,
		Required: RequiredCommands,
		Optional: OptionalCommands,
		Out:      out,
	}
	return t.Run(ctx)
}

// NewPreviewer returns a Previewer that makes the decisions of a controller with these options and this cloud-config.
// NewPreviewer makes no call to CloudStack. Each change may replace dependencies of the controller.
func NewPreviewer(
	ctx context.Context, cfg *cloudstack.Config, o Options, client *cloudstack.Client, kube kubernetes.Interface,
	change ...func(*service.Deps),
) (*service.Previewer, error) {
	p, err := assemble(cfg, o, client)
	if err != nil {
		return nil, err
	}

	if err := p.readClusterUID(ctx, kube); err != nil {
		return nil, err
	}

	deps := p.serviceDeps(kube, nil)
	deps.Services = func() (out []*corev1.Service, err error) {
		// ResourceVersion 0 reads from the API server's cache, which is recent enough here.
		list, err := kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return nil, fmt.Errorf("list Services: %w", err)
		}
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
		return out, nil
	}

	for _, c := range change {
		c(&deps)
	}

	return service.NewPreviewer(deps), nil
}

// inventoryOf returns an inventory of a project: that of the cloud-config, or one that a Service names.
func (p *Provider) inventoryOf(project string) *inventory.Inventory {
	return inventory.New(p.client, inventory.Options{
		ProjectID:      project,
		Zone:           p.config.Zone,
		NodeVMs:        p.config.NodeVMs,
		AffinityGroups: p.settings.metadata.Labels.AffinityGroups,
		Clock:          p.options.Clock,
	})
}

func newRecorder(ctx context.Context, kube kubernetes.Interface, component string) record.EventRecorder {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartStructuredLogging(0)
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: kube.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})
}

// SetInformers implements cloudprovider.InformerUser. The framework calls it before it starts the informers.
func (p *Provider) SetInformers(factory informers.SharedInformerFactory) {
	nodes := factory.Core().V1().Nodes().Informer()
	if err := nodes.SetTransform(service.Cached); err != nil {
		klog.ErrorS(err, "Nodes are cached whole, which needs more memory")
	}
	p.nodeCache.informer.Store(&nodes)
}

// LoadBalancer is not supported: the controller of Services is our own, see StartServices.
func (p *Provider) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }

// InstancesV2 returns what the framework's Node controllers use.
func (p *Provider) InstancesV2() (cloudprovider.InstancesV2, bool) { return p.instances, true }

// ProviderName returns Name.
func (p *Provider) ProviderName() string { return Name }

// HasClusterID returns true: tags and names of csccm contain the cluster's ID, and VMs need no tag with it.
func (p *Provider) HasClusterID() bool { return true }

// Instances is not supported: InstancesV2 has replaced it.
func (p *Provider) Instances() (cloudprovider.Instances, bool) { return nil, false }

// Zones is not supported: InstancesV2 has replaced it.
func (p *Provider) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters is not supported: Kubernetes no longer uses it.
func (p *Provider) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes is not supported: the network plugin manages routes.
func (p *Provider) Routes() (cloudprovider.Routes, bool) { return nil, false }
