package metrics

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector is what an OpenTelemetry Collector is to a program: it takes OTLP over HTTP, as protobuf.
type collector struct {
	url string

	mu      sync.Mutex
	wrong   []string // what it could not read
	spans   []*trace.Span
	metrics map[string]*metrics.Metric // the last of each name
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{metrics: map[string]*metrics.Metric{}}
	mux := http.NewServeMux()
	mux.Handle("POST /v1/traces", c.handler(func() (request, response proto.Message, take func()) {
		export := new(collectortrace.ExportTraceServiceRequest)
		return export, new(collectortrace.ExportTraceServiceResponse), func() {
			for _, resource := range export.ResourceSpans {
				for _, scope := range resource.ScopeSpans {
					c.spans = append(c.spans, scope.Spans...)
				}
			}
		}
	}))
	mux.Handle("POST /v1/metrics", c.handler(func() (request, response proto.Message, take func()) {
		export := new(collectormetrics.ExportMetricsServiceRequest)
		return export, new(collectormetrics.ExportMetricsServiceResponse), func() {
			for _, resource := range export.ResourceMetrics {
				for _, scope := range resource.ScopeMetrics {
					for _, m := range scope.Metrics {
						c.metrics[m.Name] = m
					}
				}
			}
		}
	}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// handler answers an export whose message and answer are those of begin, and takes it.
func (c *collector) handler(begin func() (request, response proto.Message, take func())) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, response, take := begin()
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(body, request)
		}
		answer, _ := proto.Marshal(response)
		c.mu.Lock()
		defer c.mu.Unlock()
		if kind := r.Header.Get("Content-Type"); err != nil || kind != "application/x-protobuf" {
			c.wrong = append(c.wrong, r.URL.Path+" of type "+kind+": "+string(body))
			http.Error(w, "it is no export", http.StatusBadRequest)
			return
		}
		take()
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(answer)
	})
}

// named returns the spans of a name.
func (c *collector) named(name string) (spans []*trace.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, span := range c.spans {
		if span.Name == name {
			spans = append(spans, span)
		}
	}
	return spans
}

// series returns the points of a counter or gauge by their attributes.
func (c *collector) series(name string) map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	values := map[string]int64{}
	for _, point := range c.metrics[name].GetSum().GetDataPoints() {
		values[attributes(point.Attributes)] = point.GetAsInt()
	}
	return values
}

// histograms returns those of a name by their attributes.
func (c *collector) histograms(name string) map[string]*metrics.HistogramDataPoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	points := map[string]*metrics.HistogramDataPoint{}
	for _, point := range c.metrics[name].GetHistogram().GetDataPoints() {
		points[attributes(point.Attributes)] = point
	}
	return points
}

// everything is all that the collector has got, as text.
func (c *collector) everything() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, span := range c.spans {
		b.WriteString(span.String() + "\n")
	}
	for _, m := range c.metrics {
		b.WriteString(m.String() + "\n")
	}
	return b.String()
}

// attributes shows those with a text: a=b,c=d.
func attributes(list []*common.KeyValue) string {
	var all []string
	for _, a := range list {
		if text, is := a.GetValue().GetValue().(*common.AnyValue_StringValue); is {
			all = append(all, a.Key+"="+text.StringValue)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}
