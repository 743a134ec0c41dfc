import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonFactory;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonParser;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonToken;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.LocalZonedTimestampType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.VarCharType;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/**
 * The question of {@code bench peers} in Flink SQL: one JVM with a mini cluster, event time, a window table function, the
 * exact PERCENTILE, checkpoints and an exactly-once sink. {@code java -cp JARS:FOLDER PeersFlink SETTINGS} (JSON); started
 * again it goes on from the newest checkpoint. A record holds many lines, so a deserializer of our own makes the rows, of
 * only the fields that are needed; the rest is SQL.
 */
public final class PeersFlink {
    /** The rows of a record: time, latency, tokens, then the dimensions. */
    static final class Lines implements KafkaRecordDeserializationSchema<RowData> {
        private static final long serialVersionUID = 1L;
        private final HashMap<String, Integer> places = new HashMap<>();
        private final RowType type;
        private transient JsonFactory json;

        Lines(List<String> names, RowType type) {
            for (String name : names) {
                places.put(name, places.size());
            }
            this.type = type;
        }

        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<RowData> out) throws IOException {
            if (json == null) {
                json = new JsonFactory();
            }
            try (JsonParser parser = json.createParser(record.value())) {
                while (parser.nextToken() == JsonToken.START_OBJECT) {
                    out.collect(row(parser));
                }
            }
        }

        private GenericRowData row(JsonParser parser) throws IOException {
            GenericRowData row = new GenericRowData(places.size());
            while (parser.nextToken() == JsonToken.FIELD_NAME) {
                Integer place = places.get(parser.currentName());
                JsonToken token = parser.nextToken();
                if (place == null) {
                    parser.skipChildren();
                } else if (token == JsonToken.VALUE_STRING) {
                    row.setField(place, StringData.fromString(parser.getText()));
                } else if (token == JsonToken.VALUE_NUMBER_INT) {
                    long value = parser.getLongValue();
                    row.setField(place, place == 0 ? TimestampData.fromEpochMillis(value) : (Object) value);
                }
            }
            return row;
        }

        @Override
        public TypeInformation<RowData> getProducedType() {
            return InternalTypeInfo.of(type);
        }
    }

    private static Configuration configuration(Path checkpoints) throws IOException {
        Map<String, String> given = new HashMap<>();
        given.put("parallelism.default", "1");
        given.put("state.backend.type", "hashmap");
        given.put("execution.checkpointing.interval", "2 s");
        given.put("execution.checkpointing.mode", "EXACTLY_ONCE");
        given.put("execution.checkpointing.dir", checkpoints.toUri().toString());
        given.put("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        given.put("pipeline.object-reuse", "true");
        given.put("restart-strategy.type", "none");
        given.put("table.local-time-zone", "UTC");
        newest(checkpoints).ifPresent(path -> given.put("execution.state-recovery.path", path.toUri().toString()));
        return Configuration.fromMap(given);
    }

    private static Optional<Path> newest(Path checkpoints) throws IOException {
        if (!Files.exists(checkpoints)) {
            return Optional.empty();
        }
        try (Stream<Path> found = Files.find(checkpoints, 3, (path, is) -> path.endsWith("_metadata"))) {
            return found.max(Comparator.comparingLong(path -> path.toFile().lastModified())).map(Path::getParent);
        }
    }

    public static void main(String[] arguments) throws Exception {
        JsonNode settings = new ObjectMapper().readTree(arguments[0]);
        String bootstrap = settings.get("bootstrap").asText();
        String group = settings.get("group").asText();
        List<String> dimensions = new ArrayList<>();
        settings.get("dimensions").forEach(one -> dimensions.add(one.asText()));
        List<String> names = new ArrayList<>(List.of("at_ms", "ttft_us", "output_tokens"));
        names.addAll(dimensions);
        LogicalType[] types = new LogicalType[names.size()];
        for (int at = 0; at < types.length; at++) {
            types[at] = at == 0 ? new LocalZonedTimestampType(3) : at < 3 ? new BigIntType() : VarCharType.STRING_TYPE;
        }
        RowType type = RowType.of(types, names.toArray(new String[0]));

        Path folder = Path.of(settings.get("folder").asText());
        StreamExecutionEnvironment environment =
                StreamExecutionEnvironment.getExecutionEnvironment(configuration(folder.resolve("checkpoints")));
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        KafkaSource<RowData> source = KafkaSource.<RowData>builder()
                .setBootstrapServers(bootstrap)
                .setTopics(settings.get("source").asText())
                .setGroupId(group)
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setDeserializer(new Lines(names, type))
                .build();
        WatermarkStrategy<RowData> watermarks = WatermarkStrategy
                .<RowData>forBoundedOutOfOrderness(Duration.ofMillis(settings.get("grace_ms").asLong()))
                .withTimestampAssigner((row, before) -> row.getTimestamp(0, 3).getMillisecond());
        Schema.Builder schema = Schema.newBuilder();
        for (int at = 0; at < types.length; at++) {
            schema.column(names.get(at), at == 0 ? DataTypes.TIMESTAMP_LTZ(3) : at < 3 ? DataTypes.BIGINT() : DataTypes.STRING());
        }
        schema.watermark("at_ms", "SOURCE_WATERMARK()");
        tables.createTemporaryView(
                "events", tables.fromDataStream(environment.fromSource(source, watermarks, "requests"), schema.build()));
        tables.executeSql("CREATE TABLE answers (window_ms BIGINT, series ARRAY<STRING>, events BIGINT, `count` BIGINT,"
                + " total BIGINT, tokens BIGINT, quantiles ARRAY<DOUBLE>) WITH ('connector' = 'kafka', 'topic' = '"
                + settings.get("output").asText() + "', 'properties.bootstrap.servers' = '" + bootstrap
                + "', 'format' = 'json', 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '"
                + group + "', 'properties.transaction.timeout.ms' = '600000')");
        List<String> levels = new ArrayList<>();
        settings.get("levels").forEach(one -> levels.add(one.asText()));
        String quoted = dimensions.stream().map(name -> "`" + name + "`").collect(Collectors.joining(", "));
        tables.executeSql("INSERT INTO answers SELECT"
                + " 1000 * CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', window_start) AS BIGINT),"
                + " ARRAY[" + quoted + "], COUNT(*), COUNT(ttft_us), SUM(ttft_us), SUM(output_tokens),"
                + " PERCENTILE(ttft_us, ARRAY[" + String.join(", ", levels) + "])"
                + " FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(at_ms), INTERVAL '"
                + settings.get("window_ms").asLong() / 1000 + "' SECOND)) GROUP BY window_start, window_end, " + quoted)
                .await();
    }
}
