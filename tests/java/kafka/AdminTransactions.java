import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.common.TopicPartition;

/** Transactions and producers through Kafka's Admin client. */
final class AdminTransactions {
    private AdminTransactions() {
    }

    static ObjectNode run(Admin admin, String verb, JsonNode command) throws Exception {
        String of = command.path("of").asText();
        ObjectNode answer = Json.object();
        switch (verb) {
            case "list":
                admin.listTransactions().all().get().forEach(
                        each -> answer.put(each.transactionalId(), each.state().toString()));
                return answer;
            case "describe":
                TransactionDescription found = admin.describeTransactions(List.of(of)).description(of).get();
                answer.set("partitions", Json.partitions(found.topicPartitions()));
                return answer.put("state", found.state().toString()).put("producer_id", found.producerId());
            case "producers":
                TopicPartition at = Json.partition(command.get("at").asText());
                for (ProducerState each : admin.describeProducers(List.of(at)).partitionResult(at).get().activeProducers()) {
                    answer.putObject(Long.toString(each.producerId())).put("epoch", each.producerEpoch())
                            .put("sequence", each.lastSequence()).put("coordinator", each.coordinatorEpoch().orElse(-1))
                            .put("began", each.currentTransactionStartOffset().orElse(-1));
                }
                return answer;
            case "abort":
                admin.abortTransaction(new AbortTransactionSpec(Json.partition(command.get("at").asText()),
                        command.get("producer_id").asLong(), (short) command.get("epoch").asInt(),
                        command.get("coordinator").asInt())).all().get();
                return answer;
            case "fence":
                admin.fenceProducers(List.of(of)).all().get();
                return answer;
            default:
                throw new IllegalArgumentException(verb);
        }
    }
}
