package abi

import "testing"

func BenchmarkWrite(b *testing.B) {
	buf, event, client, filters := make([]byte, 0, 4096), sampleEvent(), sampleClient(), sampleFilters()
	updates := []writerUpdate{{"refs/heads/main", "0000000000000000000000000000000000000000", "abababababababababababababababababababab"}}
	b.Run("admit", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			AppendAdmitRequest(buf, &AdmitRequest[[]string, [32]byte]{Event: *event, Authed: client.Authed, Now: 77})
		}
	})
	b.Run("query", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			out := AppendFilterOf(buf, &filters[0])
			AppendQueryRequest(out, &QueryRequest[[32]byte]{Client: client, Verb: VerbReq, Now: 77})
		}
	})
	b.Run("connect", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			AppendConnectRequest(buf, &ConnectRequest[[32]byte]{Client: client, Open: 300, FromAddress: 2, Now: 77})
		}
	})
	b.Run("push", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			AppendPushRequest(buf, &PushRequest[[32]byte, writerUpdate]{Client: client, Repo: "30617:ab:x", Maintainers: client.Authed, Updates: updates})
		}
	})
}

func BenchmarkRead(b *testing.B) {
	admit := AppendAdmitRequest(nil, &AdmitRequest[[]string, [32]byte]{Event: *sampleEvent(), Authed: sampleClient().Authed, Now: 77})
	query, push := sampleQuery(nil), samplePush(nil)
	connect := AppendConnectRequest(nil, &ConnectRequest[[32]byte]{Client: sampleClient(), Open: 300, FromAddress: 2, Now: 77})
	b.Run("admit", func(b *testing.B) {
		b.ReportAllocs()
		var v AdmitRequestView
		for b.Loop() {
			v.Decode(admit)
		}
	})
	b.Run("query with its filters", func(b *testing.B) {
		b.ReportAllocs()
		var v QueryRequestView
		for b.Loop() {
			v.Decode(query)
			for it := v.Filters(); it.Next(); {
				f := it.Filter()
				for it := f.Kinds(); it.Next(); {
					_ = it.Kind()
				}
			}
		}
	})
	b.Run("connect", func(b *testing.B) {
		b.ReportAllocs()
		var v ConnectRequestView
		for b.Loop() {
			v.Decode(connect)
		}
	})
	b.Run("push with its updates", func(b *testing.B) {
		b.ReportAllocs()
		var v PushRequestView
		for b.Loop() {
			v.Decode(push)
			for it := v.Updates(); it.Next(); {
				_ = it.Update()
			}
		}
	})
}
